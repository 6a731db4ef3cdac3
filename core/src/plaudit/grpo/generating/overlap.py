"""Generation beside training: the next generation batches are written in a thread while the policy learns."""

from __future__ import annotations

import copy
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from ...errors import PlauditError
from ...rollout.background import in_background
from ...types import Rollout, Row
from ..batch import MicroBatch
from ..collected import Writing
from ..collecting import Collector
from ..writing import Assignment, Writer

TICK_S = 0.1
DROP_S = 60.0


class WritingDropped(PlauditError):
    """Nobody wants what this thread writes any more."""


@dataclass(slots=True, eq=False)
class Underway:
    """A batch that a thread writes. `order`: of its rollouts in the micro-batches. `stop`: set when it is dropped."""

    writing: Future[Writing]
    order: Sequence[int]
    stop: threading.Event


Complete = Callable[[Writing, Sequence[int]], list[MicroBatch]]
"""The micro-batches of what was written, its rollouts in this order, when all scores are in."""


@dataclass(slots=True, eq=False)
class Overlap:
    """Generation batches that are written ahead, at most `depth`, one at a time.

    Weights are sent to the generator while nothing is written. One that has `stale` servers is called to `attend` to
    them while training waits for a batch. Which weights write a batch is fixed with `depth` 1; with more it depends on
    how long batches take. `ahead`: in their order, written or (after a checkpoint) complete.
    """

    depth: int = 1
    ahead: deque[Underway | list[MicroBatch]] = field(default_factory=deque)

    def has_room(self, collector: Collector) -> bool:
        """Whether another batch may begin now: on every rank nothing is being written. Every rank must call it."""
        if len(self.ahead) >= self.depth:
            return False
        busy = any(isinstance(batch, Underway) and not batch.writing.done() for batch in self.ahead)
        return collector.ranks.total([float(busy)])[0] == 0

    def begin(self, collector: Collector, rows: Sequence[Row], num_generations: int, trainer_state: Any) -> None:
        """Send the weights, and start to write for these rows. Every rank must call it.

        What is drawn from torch's random state is drawn here. Rewards see the trainer's state as it is now.
        """
        step = getattr(trainer_state, "global_step", 0)
        with collector.writing():
            collector.ranks.share(lambda: collector.writer.generator.refresh(step))
        seed = int(torch.randint(2**62, ()).item())
        order = torch.randperm(len(rows)).tolist()
        stop = threading.Event()
        seen = copy.copy(trainer_state)
        writer = replace(
            collector,
            writer=StoppableWriter(collector.writer, stop),
            sampling=replace(collector.sampling, seed=seed),
            writing=nullcontext,
        )

        def work() -> Writing:
            return writer.begin_alone(rows, num_generations, "train", seen)

        self.ahead.append(Underway(in_background(work, "plaudit-overlap"), order, stop))

    def take(self, collector: Collector) -> tuple[Writing, Sequence[int]] | list[MicroBatch]:
        """The first batch ahead, when it is written on every rank: scores may be missing. Or it is complete.

        Every rank must call it; what failed in the thread of one is raised on all.
        """
        first = self.ahead.popleft()
        return first if isinstance(first, list) else (self._written(first, collector), first.order)

    def settle(self, collector: Collector) -> None:
        """Wait until nothing is being written, so that the weights may be sent and other rows written."""
        for batch in self.ahead:
            _wait(batch, collector)

    def completed(self, collector: Collector, complete: Complete) -> list[list[MicroBatch]]:
        """All batches ahead, scored, as a checkpoint keeps them. Every rank must call it."""
        self.settle(collector)
        for place, batch in enumerate(self.ahead):
            if isinstance(batch, Underway):
                self.ahead[place] = complete(self._written(batch, collector), batch.order)
        return [batch for batch in self.ahead if isinstance(batch, list)]

    def drop(self, collector: Collector) -> None:
        """Forget all batches ahead; their threads end with the next completion."""
        for batch in self.ahead:
            if isinstance(batch, Underway):
                batch.stop.set()
        for batch in self.ahead:
            if isinstance(batch, Underway) and _ended(batch.writing):
                writing = batch.writing.result()
                writing.session.cancel()
                collector.writer.scored(writing.rollouts)
        self.ahead.clear()

    def _written(self, batch: Underway, collector: Collector) -> Writing:
        found: list[Writing] = []

        def work() -> None:
            _wait(batch, collector)
            found.append(batch.writing.result())

        collector.ranks.share(work)
        return found[0]


def _wait(batch: Underway | list[MicroBatch], collector: Collector) -> None:
    """Wait until the batch is written on every rank, and give weights to servers that lost them meanwhile.

    All ranks look at the same moments: the weights of a sharded policy are whole only where all are in one place.
    """
    generator: Any = collector.writer.generator
    while isinstance(batch, Underway):
        done = wait([batch.writing], timeout=TICK_S).done
        found = collector.ranks.share(partial(_state, bool(done), generator))
        if all(written for written, _ in found):
            return
        stale = sorted({server for _, servers in found for server in servers})
        if stale:
            with collector.writing():
                generator.attend(stale)


def _state(written: bool, generator: Any) -> tuple[bool, Sequence[int]]:
    return written, getattr(generator, "stale", ())


def _ended(writing: Future[Writing]) -> bool:
    """Whether a batch that is dropped was written all the same."""
    try:
        return writing.exception(timeout=DROP_S) is None
    except TimeoutError:
        return False


class StoppableWriter:
    """A writer whose rollouts are taken until `stop` is set; then it raises WritingDropped."""

    def __init__(self, writer: Writer, stop: threading.Event) -> None:
        self._writer = writer
        self._stop = stop
        self.codec = writer.codec
        self.generator = writer.generator
        self.late_columns = writer.late_columns

    def write(self, work: Assignment, finished: Callable[[Rollout], None]) -> list[Rollout]:
        """As the writer does."""

        def hand_over(rollout: Rollout) -> None:
            if self._stop.is_set():
                raise WritingDropped("the generation batch that this thread wrote was dropped")
            finished(rollout)

        return self._writer.write(work, hand_over)

    def scored(self, rollouts: Sequence[Rollout]) -> None:
        """As the writer does."""
        self._writer.scored(rollouts)

    def rest(self) -> None:
        """As the writer does."""
        self._writer.rest()

    def close(self) -> None:
        """The writer is closed by those who made it."""
