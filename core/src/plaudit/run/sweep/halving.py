"""Which trials are stopped early: asynchronous successive halving (ASHA, arXiv 1810.05934), in its stopping form."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from .schema import StopRule


@dataclass(slots=True)
class Rungs:
    """`maximize`: more is better. `judged`: what each trial scored at each rung that it got to; None = no number."""

    rule: StopRule
    maximize: bool
    judged: dict[int, list[float | None]] = field(default_factory=dict)

    def step_of(self, rung: int) -> int:
        """The optimizer step at which a rung lies."""
        return self.rule.after * self.rule.factor**rung

    def stops(self, trial: int, step: int, score: float) -> bool:
        """Whether a trial, which is at `step` with this score, is to be stopped.

        It is judged once at each rung, against all that were judged there before: the best 1 / factor go on, and all do
        while fewer than `factor` have come by.
        """
        own = self.judged.setdefault(trial, [])
        rung = len(own)
        if step < self.step_of(rung):
            return False
        own.append(score if math.isfinite(score) else None)
        worths = [self._worth(scores[rung]) for scores in self.judged.values() if len(scores) > rung]
        if len(worths) < self.rule.factor:
            return False
        kept = max(1, len(worths) // self.rule.factor)
        return self._worth(own[rung]) < sorted(worths, reverse=True)[kept - 1]

    def _worth(self, score: float | None) -> float:
        """More is better; no number is the least."""
        if score is None:
            return float("-inf")
        return score if self.maximize else -score
