"""What a generation batch is, written and scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from ..types import Rollout, Text, ToolUse
from .advantages import Advantages
from .batch import MicroBatch

if TYPE_CHECKING:
    from ..scoring.session import ScoringSession
    from ..scoring.table import ScoreTable


@dataclass(frozen=True, slots=True)
class Report:
    """What a rank tells the others of its n rollouts. `tasks`: of each, None where its row names none. `texts`: prompt
    and completion of each, for the table.
    """

    table: ScoreTable
    prompt_tokens: int
    lengths: tuple[int, ...]
    truncated: tuple[bool, ...]
    learnt_tokens: int
    tool_uses: tuple[tuple[ToolUse, ...] | None, ...]
    metrics: tuple[Mapping[str, float], ...]
    tasks: tuple[str | None, ...]
    texts: tuple[tuple[Text, Text], ...] | None
    images: tuple[tuple[Any, ...], ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Writing:
    """A generation batch of this rank that is written, and whose last scores may still be on their way.

    `step`: the optimizer step whose policy wrote it. `counted`: how many rollouts are judged; the rest, at the end,
    only fill a batch of evaluation.
    """

    rollouts: tuple[Rollout, ...]
    session: ScoringSession
    num_generations: int
    step: int
    counted: int


@dataclass(frozen=True, slots=True, eq=False)
class Begun:
    """A generation batch whose scores are on their way: its micro-batches without advantages, rows in this `order`."""

    writing: Writing
    order: Sequence[int]
    batches: Sequence[MicroBatch]


@dataclass(frozen=True, slots=True, eq=False)
class Collected:
    """A scored generation batch: this rank's rollouts, every rank's report, and the advantages of all N rollouts.

    `staleness`: optimizer steps between the policy that wrote it and the one that learns from it. `numbers`: what is
    logged of how it came about.
    """

    rollouts: tuple[Rollout, ...]
    reports: tuple[Report, ...]
    advantages: Advantages
    rank: int
    staleness: int = 0
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The rewards, in order."""
        return self.reports[0].table.names

    @property
    def local_advantages(self) -> torch.Tensor:
        """(n,) the advantages of this rank's rollouts."""
        before = sum(len(report.lengths) for report in self.reports[: self.rank])
        return self.advantages.values[before : before + len(self.rollouts)]

    @property
    def total(self) -> int:
        """N: rollouts of all ranks."""
        return sum(len(report.lengths) for report in self.reports)

    @property
    def num_tokens(self) -> int:
        """Prompt and completion tokens of all ranks, without those that tools wrote."""
        return sum(report.prompt_tokens + sum(report.lengths) for report in self.reports)

    @property
    def learnt_tokens(self) -> int:
        """Tokens of all ranks that count in the loss."""
        return sum(report.learnt_tokens for report in self.reports)


def with_advantages(batches: Sequence[MicroBatch], order: Sequence[int], collected: Collected) -> list[MicroBatch]:
    """The micro-batches of this rank's rollouts, in this order, with what they are worth; idle where it has none."""
    items, share = float(collected.learnt_tokens), len(collected.rollouts) / collected.total
    if not order:
        return [replace(batch.idle(), num_items=items) for batch in batches]
    advantages = collected.local_advantages[list(order)].view(len(batches), -1)
    return [
        replace(batch, advantages=part.to(batch.advantages.device), num_items=items, share=share)
        for batch, part in zip(batches, advantages, strict=True)
    ]
