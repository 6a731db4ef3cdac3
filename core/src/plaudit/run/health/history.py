"""The log lines of a run so far, as the checks read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any


@dataclass(slots=True)
class History:
    """`lines`: training logs in order. `heldout`, `canary`: (step, mean reward) of held-out rows, and of rows that
    nothing can answer, whose reward belongs at `canary_floor`. `rewards`: their weights. `rollouts`: of a generation
    batch.
    """

    lines: list[Mapping[str, Any]] = field(default_factory=list)
    heldout: list[tuple[int, float]] = field(default_factory=list)
    canary: list[tuple[int, float]] = field(default_factory=list)
    rewards: Mapping[str, float] = field(default_factory=dict)
    rollouts: int = 0
    learning_rate: float | None = None
    canary_floor: float = 0.0
    uses_vllm: bool = False

    def add(self, step: int, logs: Mapping[str, Any]) -> None:
        """Take a log line."""
        if isinstance(logs.get("reward"), (int, float)):
            self.lines.append({**logs, "step": step})
        for name, kept in (("eval_reward", self.heldout), ("canary/reward", self.canary)):
            if isinstance(logs.get(name), (int, float)):
                kept.append((step, float(logs[name])))

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def step(self) -> int:
        """Of the newest line."""
        return int(self.lines[-1]["step"]) if self.lines else 0

    def values(self, name: str, last: int | None = None) -> list[float]:
        """A metric over the newest `last` lines that have it."""
        found = [line[name] for line in self.lines if isinstance(line.get(name), (int, float))]
        found = [float(value) for value in found if math.isfinite(value)]
        return found if last is None else found[-last:]

    def latest(self, name: str) -> float | None:
        """A metric's newest value."""
        found = self.values(name, 1)
        return found[0] if found else None

    def mean(self, name: str, last: int) -> float | None:
        """A metric's mean over the newest `last` lines; None when there are fewer."""
        found = self.values(name, last)
        return fmean(found) if len(found) == last else None

    def trend(self, name: str, last: int) -> float | None:
        """Mean of the newer half less that of the older half of the newest `last` lines; None when there are fewer."""
        return _trend(self.values(name, last), last)

    def usual(self, name: str) -> float | None:
        """A metric's median over all lines but the newest."""
        found = self.values(name)[:-1]
        return median(found) if found else None


def trend_of(points: Sequence[tuple[int, float]], last: int) -> float | None:
    """As `History.trend`, of (step, value) points."""
    return _trend([value for _, value in points[-last:]], last)


def _trend(values: Sequence[float], last: int) -> float | None:
    if len(values) < last or last < 2:
        return None
    return fmean(values[last // 2 :]) - fmean(values[: last // 2])
