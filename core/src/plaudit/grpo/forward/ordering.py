"""Which rollouts share a micro-batch, where padding costs: those of like length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...types import Rollout
from ..logprobs import TokenScorer
from ..records import LossOptions

Arrange = Callable[[Sequence[Rollout], Sequence[int]], Sequence[int]]
"""From rollouts and a random order of them to the order in which micro-batches take them."""


def as_drawn(rollouts: Sequence[Rollout], order: Sequence[int]) -> Sequence[int]:
    """The random order itself."""
    return order


@dataclass(frozen=True, slots=True)
class ByLength:
    """Longest first among the rollouts of one optimizer step; none moves to another step.

    `parts`: micro-batches of a generation batch. `accumulation`: micro-batches of an optimizer step.
    """

    parts: int
    accumulation: int

    def __call__(self, rollouts: Sequence[Rollout], order: Sequence[int]) -> Sequence[int]:
        """The order by length; equally long ones stay as drawn."""
        size = len(rollouts) // self.parts * self._together()
        if not size:
            return order
        steps = [order[start : start + size] for start in range(0, len(order), size)]
        return [place for step in steps for place in sorted(step, key=lambda place: -_length(rollouts[place]))]

    def _together(self) -> int:
        """How many micro-batches of a generation batch always fall into one optimizer step."""
        if self.accumulation % self.parts == 0:
            return self.parts
        return self.accumulation if self.parts % self.accumulation == 0 else 1


def build_order(args: Any, options: LossOptions, scorer: TokenScorer) -> Arrange:
    """By length where rollouts are padded and it does not matter to the loss which of a step share a micro-batch.

    It matters where something is normalised within each: bnpo, the entropy bonus, the quantile of entropies, and the
    load of experts.
    """
    within = options.loss_type == "bnpo" or options.entropy_bonus or options.top_entropy_quantile < 1
    packs = scorer.packed is not None and scorer.packed.usable and not args.gradient_checkpointing
    if packs or within or scorer.balanced:
        return as_drawn
    return ByLength(args.steps_per_generation, args.gradient_accumulation_steps)


def _length(rollout: Rollout) -> int:
    return len(rollout.prompt_ids) + len(rollout.completion_ids)
