"""Which trials are stopped early: asynchronous successive halving (ASHA, arXiv 1810.05934), in its stopping form."""

from __future__ import annotations

from dataclasses import dataclass, field

from .schema import StopRule


@dataclass(slots=True)
class Rungs:
    """What trials scored at each rung. `maximize`: more is better."""

    rule: StopRule
    maximize: bool
    _scores: dict[int, list[float]] = field(default_factory=dict)
    _passed: dict[int, int] = field(default_factory=dict)

    def step_of(self, rung: int) -> int:
        """The optimizer step at which a rung lies."""
        return self.rule.after * self.rule.factor**rung

    def stops(self, trial: int, step: int, score: float) -> bool:
        """Whether a trial, which is at `step` with this score, is to be stopped.

        It is judged once at each rung, against all that were judged there before: the best 1 / factor go on, and all do
        while fewer than `factor` have come by.
        """
        rung = self._passed.get(trial, 0)
        if step < self.step_of(rung):
            return False
        self._passed[trial] = rung + 1
        scores = self._scores.setdefault(rung, [])
        scores.append(score if self.maximize else -score)
        if len(scores) < self.rule.factor:
            return False
        kept = max(1, len(scores) // self.rule.factor)
        return scores[-1] < sorted(scores, reverse=True)[kept - 1]
