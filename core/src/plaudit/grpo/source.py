"""Where micro-batches come from: the sampler, the collector, and the buffer between generation and training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from ..types import Rollout, Row
from .batch import Experience, MicroBatch, collate
from .collected import Begun, Collected, Writing, with_advantages
from .collecting import Collector
from .forward.ordering import Arrange, as_drawn
from .generating.dynamic_sampling import DynamicSampling
from .generating.overlap import Overlap
from .rows.prompts import as_row
from .rows.streams import Filler
from .sampler import Rows, rank_share
from .schedule import Schedule
from .writing import Mode


@dataclass(slots=True, eq=False)
class RolloutSource:
    """Gives the trainer its micro-batches, generating when the buffer is used up (spec: grpo-formulas A1, A2).

    `annotate` adds the log-probs that must be taken before the policy moves. `collected` is told of every scored batch.
    `position` counts the micro-batches given out; with the buffer it is the state that a checkpoint keeps. Completions
    and the order of micro-batches come from torch's global random state, which the checkpoint keeps as well.
    `lookahead`: write the next generation batch before the last scores of this one are in, so that a slow reward costs
    no time; all batches but the first are then one cycle older than the policy. `ahead` is that next batch, begun or
    (after a checkpoint) complete. `accumulation`: micro-batches an optimizer step, to know which batch is the last.
    `overlap`: generation batches are written in a thread beside training, and scored there too.
    `keep_logprobs`: whether micro-batches carry the sampler's. `arrange`: which rollouts share one. `dynamic`:
    replaces groups that teach nothing.
    """

    rows: Rows
    collector: Collector
    schedule: Schedule
    annotate: Callable[[MicroBatch], MicroBatch]
    collected: Callable[[Collected, Mode], None]
    collate_options: Mapping[str, Any] = field(default_factory=dict)
    position: int = 0
    buffer: list[MicroBatch] = field(default_factory=list)
    lookahead: bool = False
    accumulation: int = 1
    ahead: Begun | list[MicroBatch] | None = None
    overlap: Overlap | None = None
    keep_logprobs: Callable[[], bool] = lambda: False
    arrange: Arrange = as_drawn
    dynamic: DynamicSampling | None = None

    @property
    def micro_batches_per_epoch(self) -> int | None:
        """Micro-batches of a rank in one pass over the dataset; None when it streams, and nobody knows."""
        batches = self.rows.batches_per_epoch
        return None if batches is None else batches * self.schedule.cycle

    def next(self, trainer_state: Any) -> MicroBatch:
        """The next training micro-batch of this rank. Every rank must call it equally often."""
        number, place = divmod(self.position, self.schedule.cycle)
        if place == 0 or not self.buffer:
            self.buffer = self._fill(number, trainer_state)
        elif self.overlap is not None and self.overlap.depth > 1 and self.position % self.accumulation == 0:
            self._write_ahead(self.overlap, number + 1, trainer_state)
        self.position += 1
        return self.buffer[place % self.schedule.steps_per_generation]

    def evaluate(self, records: Sequence[Mapping[str, Any]], *, num_generations: int, trainer_state: Any) -> MicroBatch:
        """One evaluation batch, generated and scored; the records of a group are consecutive, fillers come last."""
        self.settle()
        rows = [as_row(record) for record in records]
        counted = sum(not isinstance(record, Filler) for record in records)
        begun = self._begin(rows, num_generations, "eval", trainer_state, counted)
        return self._complete(begun, "eval", trainer_state)[0]

    def settle(self) -> None:
        """Wait until nothing is written beside training: the generator is free, and its weights may be changed."""
        if self.overlap is not None:
            self.overlap.settle(self.collector)

    def restart(self) -> None:
        """Begin at the first row again."""
        self.position, self.buffer = 0, []
        if self.dynamic is not None:
            self.dynamic.restart()
        self._drop_ahead()

    def state_dict(self, trainer_state: Any = None) -> dict[str, Any]:
        """Position, the buffer when a generation batch is only partly used, and the batch ahead with its scores.

        Waits for the scores of the batch ahead, so every rank must call it.
        """
        used_up = self.position % self.schedule.cycle == 0
        if isinstance(self.ahead, Begun):
            self.ahead = self._complete(self.ahead, "train", trainer_state)
        return {
            "position": self.position,
            "rows": self.rows.state_dict(),
            "dynamic": None if self.dynamic is None else self.dynamic.state_dict(),
            "buffer": [] if used_up else [batch.state_dict() for batch in self.buffer],
            "ahead": [batch.state_dict() for batch in self.ahead or ()],
            "overlap": [[batch.state_dict() for batch in batches] for batches in self._written_ahead(trainer_state)],
        }

    def load_state_dict(self, state: Mapping[str, Any], device: torch.device | str = "cpu") -> None:
        """Continue from a saved state."""
        self.position = state["position"]
        self.rows.load_state_dict(state["rows"])
        if self.dynamic is not None:
            self.dynamic.load_state_dict(state["dynamic"])
        self.buffer = [MicroBatch.from_state(saved, device) for saved in state["buffer"]]
        self.ahead = [MicroBatch.from_state(saved, device) for saved in state["ahead"]] or None
        if self.overlap is not None:
            saved_ahead = state.get("overlap", ())
            self.overlap.ahead.extend([MicroBatch.from_state(one, device) for one in saved] for saved in saved_ahead)

    def forget(self, position: int) -> None:
        """Go back to `position` with nothing written: what was written is lost with a run that pauses."""
        self.position, self.buffer = position, []
        self._drop_ahead()

    def _drop_ahead(self) -> None:
        if isinstance(self.ahead, Begun):
            self.ahead.writing.session.cancel()
            self.collector.writer.scored(self.ahead.writing.rollouts)
        self.ahead = None
        if self.overlap is not None:
            self.overlap.drop(self.collector)

    def _fill(self, number: int, trainer_state: Any) -> list[MicroBatch]:
        if self.overlap is not None:
            return self._fill_beside(self.overlap, number, trainer_state)
        if self.dynamic is not None:
            return self._learn_from(self.dynamic.collect(self.collector, number, trainer_state))
        now = self.ahead or self._begin_training(number, trainer_state)
        self.ahead = None
        if self.lookahead and self._is_used(number + 1, trainer_state):
            self.ahead = self._begin_training(number + 1, trainer_state)
        return self._complete(now, "train", trainer_state) if isinstance(now, Begun) else now

    def _fill_beside(self, overlap: Overlap, number: int, trainer_state: Any) -> list[MicroBatch]:
        """Take the batch that was written beside training, and have the next begin before its last scores are in."""
        if not overlap.ahead:
            self._write_ahead(overlap, number, trainer_state)
        first = overlap.take(self.collector)
        self._write_ahead(overlap, number + 1, trainer_state)
        return first if isinstance(first, list) else self._complete_written(*first, trainer_state)

    def _write_ahead(self, overlap: Overlap, first: int, trainer_state: Any) -> None:
        """Begin the batch that comes after those ahead, the first of which is number `first`, if there is room."""
        number = first + len(overlap.ahead)
        if self._is_used(number, trainer_state) and overlap.has_room(self.collector):
            overlap.begin(self.collector, self._rows_of(number), self.schedule.num_generations, trainer_state)

    def _written_ahead(self, trainer_state: Any) -> list[list[MicroBatch]]:
        complete = partial(self._complete_written, trainer_state=trainer_state)
        return [] if self.overlap is None else self.overlap.completed(self.collector, complete)

    def _complete_written(self, writing: Writing, order: Sequence[int], trainer_state: Any) -> list[MicroBatch]:
        order = self.arrange(writing.rollouts, order)
        batches = self._split(writing.rollouts, order, self.schedule.steps_per_generation)
        return self._complete(Begun(writing, order, batches), "train", trainer_state)

    def _is_used(self, number: int, trainer_state: Any) -> bool:
        """Whether the run lasts long enough to learn from generation batch `number`."""
        return number * self.schedule.cycle < getattr(trainer_state, "max_steps", 0) * self.accumulation

    def _begin_training(self, number: int, trainer_state: Any) -> Begun:
        return self._begin(self._rows_of(number), self.schedule.num_generations, "train", trainer_state)

    def _rows_of(self, number: int) -> list[Row]:
        """This rank's rows of a generation batch, one a rollout."""
        ranks = self.collector.ranks
        mine = rank_share(
            tuple(range(self.rows.prompts_per_batch)),
            num_generations=self.schedule.num_generations,
            rank=ranks.index,
            world_size=ranks.size,
        )
        places = list(dict.fromkeys(mine))
        found = dict(zip(places, map(as_row, self.rows.records(number, places)), strict=True))
        return [found[place] for place in mine]

    def _begin(
        self,
        rows: Sequence[Row],
        num_generations: int,
        mode: Mode,
        trainer_state: Any,
        counted: int | None = None,
    ) -> Begun:
        """Write rollouts for the rows and split them into micro-batches: when training into several, shuffled.

        `counted`: how many rows are judged, None = all. A rank without any still runs one, so as to stay in step.
        """
        parts = self.schedule.steps_per_generation if mode == "train" else 1
        order: Sequence[int] = range(len(rows) if counted is None else counted)
        batches: list[MicroBatch] = []

        def build(rollouts: tuple[Rollout, ...]) -> None:
            nonlocal order, batches
            if mode == "train":
                order = self.arrange(rollouts, torch.randperm(len(rollouts)).tolist())
            batches = self._split(rollouts, order or range(1), parts)

        writing = self.collector.begin(rows, num_generations, mode, trainer_state, build, counted)
        return Begun(writing, order, batches)

    def _split(self, rollouts: Sequence[Rollout], order: Sequence[int], parts: int) -> list[MicroBatch]:
        """Micro-batches of the rollouts in this order, without advantages."""
        size = len(order) // parts
        chosen = [[rollouts[place] for place in order[start : start + size]] for start in range(0, size * parts, size)]
        keep = self.keep_logprobs() or not self.collector.writer.generator.exact
        return [
            self.annotate(collate([self._experience(rollout, keep) for rollout in part], **self.collate_options))
            for part in chosen
        ]

    def _complete(self, begun: Begun, mode: Mode, trainer_state: Any) -> list[MicroBatch]:
        """The micro-batches with their advantages, when all scores are in."""
        step = getattr(trainer_state, "global_step", begun.writing.step)
        collected = self.collector.finish(begun.writing, step=step)
        return self._compared(begun.batches, begun.order, collected, mode)

    def _learn_from(self, collected: Collected) -> list[MicroBatch]:
        """The micro-batches of rollouts that are scored already."""
        order = self.arrange(collected.rollouts, torch.randperm(len(collected.rollouts)).tolist())
        batches = self._split(collected.rollouts, order, self.schedule.steps_per_generation)
        return self._compared(batches, order, collected, "train")

    def _compared(
        self, batches: Sequence[MicroBatch], order: Sequence[int], collected: Collected, mode: Mode
    ) -> list[MicroBatch]:
        self.collected(collected, mode)
        if mode == "train":
            self.rows.observe(collected)
        return with_advantages(batches, order, collected)

    def _experience(self, rollout: Rollout, keep_logprobs: bool) -> Experience:
        logprobs, candidates = (rollout.logprobs, rollout.candidates) if keep_logprobs else (None, None)
        learnt = self.collector.learnt(rollout)
        return Experience(rollout.prompt_ids, rollout.completion_ids, learnt, logprobs, rollout.media, candidates)
