"""The log lines of a run so far, as the checks read them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, median
from typing import Any

from plaudit.scoring.schedules import as_schedule

_HELDOUT = re.compile(r"eval_(?:(?P<set>[^/]+)_)?(?:reward|rewards/(?P<name>.+)/(?P<what>mean|std))")
NEAR_BEST, NEAR_BEST_LINES = 0.85, 5


@dataclass(slots=True)
class History:
    """`lines`: training logs in order. `heldout`: (step, mean) of held-out rows by reward, "reward" for their weighted
    sum; of one of several sets, "… of SET". `canary`: (step, mean reward) of rows that nothing can answer, whose reward
    belongs at `canary_floor`. `rewards`: their weights, numbers or schedules. `rollouts`: of a generation batch.
    `best`: the reward of a perfect rollout, by default the sum of the weights above 0. `heldout_rows`: how many those
    are, 0 = unknown.
    """

    lines: list[Mapping[str, Any]] = field(default_factory=list)
    heldout: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    canary: list[tuple[int, float]] = field(default_factory=list)
    rewards: Mapping[str, Any] = field(default_factory=dict)
    rollouts: int = 0
    learning_rate: float | None = None
    canary_floor: float = 0.0
    uses_vllm: bool = False
    has_gpu: bool = True
    best: float | None = None
    heldout_rows: int = 0
    _heldout_std: dict[str, float] = field(default_factory=dict)

    def add(self, step: int, logs: Mapping[str, Any]) -> None:
        """Take a log line."""
        if isinstance(logs.get("reward"), (int, float)):
            self.lines.append({**logs, "step": step})
        if isinstance(logs.get("canary/reward"), (int, float)):
            self.canary.append((step, float(logs["canary/reward"])))
        for key, value in logs.items():
            found = _HELDOUT.fullmatch(key)
            if found is None or not isinstance(value, (int, float)) or not math.isfinite(value):
                continue
            label = (found["name"] or "reward") + (f" of {found['set']}" if found["set"] else "")
            if found["what"] == "std":
                self._heldout_std[label] = float(value)
            else:
                self.heldout.setdefault(label, []).append((step, float(value)))

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
        """A metric's median over all lines but the newest that are above 0; None when there is none."""
        found = [value for value in self.values(name)[:-1] if value > 0]
        return median(found) if found else None

    def noise(self, name: str) -> float:
        """What a line differs by from the next by chance, as a standard deviation; a trend does not count."""
        values = self.values(name)
        steps = [abs(after - before) for before, after in pairwise(values)]
        # Of a normal distribution half lies within 0.6745 deviations; a difference has √2 times those of its parts.
        return median(steps) / (0.6745 * math.sqrt(2)) if steps else 0.0

    def heldout_noise(self, name: str) -> float:
        """The standard error of a held-out mean, as far as it is known."""
        if not self.heldout_rows:
            return 0.0
        weights = self.weights()
        # That of a weighted sum is at most this.
        whole = sum(abs(weights.get(one, 0.0)) * std for one, std in self._heldout_std.items())
        spread = self._heldout_std.get(name, whole)
        return spread / math.sqrt(self.heldout_rows)

    def weights(self) -> dict[str, float]:
        """Each reward's weight now; an adaptive one's at its start."""
        return {name: as_schedule(weight)(self.step) for name, weight in self.rewards.items()}

    def best_reward(self) -> float:
        """The reward of a perfect rollout, 0 = unknown."""
        return self.best if self.best is not None else sum(max(weight, 0.0) for weight in self.weights().values())

    def near_best(self) -> bool:
        """Whether there is not much left to learn."""
        best, newest = self.best_reward(), self.values("reward", NEAR_BEST_LINES)
        return best > 0 and bool(newest) and fmean(newest) > NEAR_BEST * best


def trend_of(points: Sequence[tuple[int, float]], last: int) -> float | None:
    """As `History.trend`, of (step, value) points."""
    return _trend([value for _, value in points[-last:]], last)


def _trend(values: Sequence[float], last: int) -> float | None:
    if len(values) < last or last < 2:
        return None
    return fmean(values[last // 2 :]) - fmean(values[: last // 2])
