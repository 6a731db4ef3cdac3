"""Weights that change with the step: constant, linear, cosine, steps, or adaptive to how often the policy succeeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, runtime_checkable

from plaudit.errors import UsageError


@runtime_checkable
class Schedule(Protocol):
    """A weight as a function of the optimizer step (0-based)."""

    def __call__(self, step: int, /) -> float: ...


@dataclass(frozen=True, slots=True)
class Constant:
    """The same weight at every step."""

    value: float

    def __call__(self, step: int) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Linear:
    """From `start` at step `begin` to `end`, `steps` steps later, on a straight line; flat before and after."""

    start: float
    end: float
    steps: int
    begin: int = 0

    def __call__(self, step: int) -> float:
        return self.start + (self.end - self.start) * _progress(step, self.begin, self.steps)


@dataclass(frozen=True, slots=True)
class Cosine:
    """As Linear, on half a cosine wave: slow at both ends."""

    start: float
    end: float
    steps: int
    begin: int = 0

    def __call__(self, step: int) -> float:
        share = (1 - math.cos(math.pi * _progress(step, self.begin, self.steps))) / 2
        return self.start + (self.end - self.start) * share


@dataclass(frozen=True, slots=True)
class Steps:
    """`values = {0 = 1.0, 500 = 0.5}`: each weight holds from its step on; the first one also before."""

    values: Mapping[int, float]

    def __post_init__(self) -> None:
        if not self.values:
            raise UsageError("a weight schedule 'steps' needs values = {step = weight, …}")
        ordered = sorted((int(step), float(weight)) for step, weight in self.values.items())
        object.__setattr__(self, "values", dict(ordered))

    def __call__(self, step: int) -> float:
        reached = [weight for begin, weight in self.values.items() if begin <= step]
        return reached[-1] if reached else next(iter(self.values.values()))


@dataclass(slots=True)
class Adaptive:
    """Times `up` after a batch whose success rate is below `low`, times `down` above `high`; within [`least`, `most`].

    The success rate is the share of scored rollouts, over all ranks, whose score is at least `success_at`.
    """

    start: float = 1.0
    low: float = 0.3
    high: float = 0.8
    up: float = 1.2
    down: float = 0.9
    success_at: float = 0.5
    least: float = 0.0
    most: float = 100.0
    weight: float = field(init=False)

    def __post_init__(self) -> None:
        self.weight = self.start

    def __call__(self, step: int) -> float:
        return self.weight

    def update(self, successes: float, scored: float) -> None:
        """Take in one training batch: `successes` of `scored` rollouts. A batch without scores changes nothing."""
        if scored == 0:
            return
        rate = successes / scored
        factor = self.up if rate < self.low else self.down if rate > self.high else 1.0
        self.weight = min(max(self.weight * factor, self.least), self.most)


_KINDS: dict[str, Callable[..., Any]] = {
    "constant": Constant, "linear": Linear, "cosine": Cosine, "steps": Steps, "adaptive": Adaptive,
}  # fmt: skip


def as_schedule(weight: float | Mapping[str, Any] | Schedule) -> Schedule:
    """The schedule of a weight: a number, `{schedule = "linear", start = 1.0, end = 0.0, steps = 500}`, or a callable.

    Raises UsageError on anything else, naming the kinds and what the chosen kind takes.
    """
    if isinstance(weight, bool) or (isinstance(weight, float) and not math.isfinite(weight)):
        raise UsageError(
            f"a reward's weight must be a finite number, a schedule or a function of the step, not {weight!r}"
        )
    if isinstance(weight, (int, float)):
        return Constant(float(weight))
    if isinstance(weight, Mapping):
        return _from_mapping(weight)
    if callable(weight):
        return weight
    raise UsageError(f"a reward's weight must be a number, a schedule or a function of the step, not {weight!r}")


def _from_mapping(written: Mapping[str, Any]) -> Schedule:
    options = dict(written)
    kind = options.pop("schedule", None)
    if kind not in _KINDS:
        raise UsageError(f"weight schedule {kind!r}: write schedule = one of {', '.join(_KINDS)}")
    try:
        return cast(Schedule, _KINDS[kind](**options))
    except TypeError as error:
        fields = getattr(_KINDS[kind], "__dataclass_fields__", {})
        takes = ", ".join(name for name in fields if name != "weight")
        raise UsageError(f"weight schedule '{kind}' takes {takes}; got {sorted(options)}") from error


def _progress(step: int, begin: int, steps: int) -> float:
    return 1.0 if steps <= 0 else min(max((step - begin) / steps, 0.0), 1.0)
