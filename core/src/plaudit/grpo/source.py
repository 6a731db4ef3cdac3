"""Where micro-batches come from: the sampler, the collector, and the buffer between generation and training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ..types import Rollout, Row
from .batch import Experience, MicroBatch, collate
from .collecting import Collected, Collector, Mode
from .prompts import as_row
from .sampler import PromptSampler, rank_share


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a generation batch is used: split into `steps_per_generation` micro-batches, all of them `num_iterations`
    times.
    """

    num_generations: int
    steps_per_generation: int
    num_iterations: int = 1

    @property
    def cycle(self) -> int:
        """Micro-batches from one generation to the next."""
        return self.steps_per_generation * self.num_iterations


@dataclass(slots=True, eq=False)
class RolloutSource:
    """Gives the trainer its micro-batches, generating when the buffer is used up (spec: grpo-formulas A1, A2).

    `annotate` adds the log-probs that must be taken before the policy moves. `collected` is told of every scored batch.
    `position` counts the micro-batches given out; with the buffer it is the state that a checkpoint keeps. Completions
    and the order of micro-batches come from torch's global random state, which the checkpoint keeps as well.
    """

    dataset: Any
    sampler: PromptSampler
    collector: Collector
    schedule: Schedule
    annotate: Callable[[MicroBatch], MicroBatch]
    collected: Callable[[Collected, Mode], None]
    collate_options: Mapping[str, Any] = field(default_factory=dict)
    position: int = 0
    buffer: list[MicroBatch] = field(default_factory=list)

    @property
    def micro_batches_per_epoch(self) -> int:
        """Micro-batches of a rank in one pass over the dataset."""
        return self.sampler.batches_per_epoch * self.schedule.cycle

    def next(self, trainer_state: Any) -> MicroBatch:
        """The next training micro-batch of this rank. Every rank must call it equally often."""
        number, place = divmod(self.position, self.schedule.cycle)
        if place == 0 or not self.buffer:
            self.buffer = self._fill(number, trainer_state)
        self.position += 1
        return self.buffer[place % self.schedule.steps_per_generation]

    def evaluate(self, records: Sequence[Mapping[str, Any]], *, num_generations: int, trainer_state: Any) -> MicroBatch:
        """One evaluation batch, generated and scored; the records of a group are consecutive."""
        rows = [as_row(record) for record in records]
        return self._materialise(rows, num_generations, 1, "eval", trainer_state)[0]

    def restart(self) -> None:
        """Begin at the first row again."""
        self.position, self.buffer = 0, []

    def state_dict(self) -> dict[str, Any]:
        """Position, and the buffer when a generation batch is only partly used."""
        used_up = self.position % self.schedule.cycle == 0
        return {"position": self.position, "buffer": [] if used_up else [batch.state_dict() for batch in self.buffer]}

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device | str = "cpu") -> None:
        """Continue from a saved state."""
        self.position = state["position"]
        self.buffer = [MicroBatch.from_state(saved, device) for saved in state["buffer"]]

    def _fill(self, number: int, trainer_state: Any) -> list[MicroBatch]:
        ranks = self.collector.ranks
        mine = rank_share(
            self.sampler.batch(number),
            num_generations=self.schedule.num_generations,
            rank=ranks.index,
            world_size=ranks.size,
        )
        found = {index: as_row(self.dataset[index]) for index in dict.fromkeys(mine)}
        rows = [found[index] for index in mine]
        steps = self.schedule.steps_per_generation
        return self._materialise(rows, self.schedule.num_generations, steps, "train", trainer_state)

    def _materialise(
        self, rows: Sequence[Row], num_generations: int, parts: int, mode: Mode, trainer_state: Any
    ) -> list[MicroBatch]:
        """Collect rollouts for the rows and split them into `parts` micro-batches, shuffled when training."""
        order = range(len(rows))
        batches: list[MicroBatch] = []

        def build(rollouts: tuple[Rollout, ...]) -> None:
            nonlocal order
            if mode == "train":
                order = torch.randperm(len(rollouts)).tolist()
            size = len(rollouts) // parts
            for start in range(0, size * parts, size):
                rows_of_part = [self._experience(rollouts[place]) for place in order[start : start + size]]
                batches.append(self.annotate(collate(rows_of_part, **self.collate_options)))

        collected = self.collector.collect(
            rows, num_generations=num_generations, mode=mode, trainer_state=trainer_state, beside_scoring=build
        )
        self.collected(collected, mode)
        advantages = collected.local_advantages[list(order)].view(len(batches), -1)
        return [
            replace(batch, advantages=part.to(batch.advantages.device), num_items=float(collected.learnt_tokens))
            for batch, part in zip(batches, advantages, strict=True)
        ]

    def _experience(self, rollout: Rollout) -> Experience:
        return Experience(rollout.prompt_ids, rollout.completion_ids, self.collector.learnt(rollout))
