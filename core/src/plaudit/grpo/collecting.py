"""One generation batch: write completions, score them beside that, and compare each with its group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from ..rollout.protocol import SamplingOptions
from ..types import Rollout, Row
from .advantages import Advantages, Aggregation, Scale
from .collected import Collected, Report, Writing
from .policy.images import images_in, without_images
from .ranks import Ranks
from .rows.tasks import advantages_within_tasks, task_of
from .writing import Assignment, Mode, Writer

if TYPE_CHECKING:
    from ..scoring.scorer import Scorer
    from ..scoring.table import ScoreTable


@dataclass(frozen=True, slots=True, eq=False)
class Collector:
    """Turns rows into scored rollouts.

    `mask_truncated`: nothing is learnt from a completion that was cut off. `keep_texts`: reports carry the texts.
    `keep_images`: and the images of prompts.
    `within_tasks`: statistics of the whole batch are those of each task by itself. `writing`: entered while completions
    are written, by all ranks together; makes a sharded policy whole.
    """

    writer: Writer
    scorer: Scorer
    sampling: SamplingOptions
    ranks: Ranks
    aggregation: Aggregation = "sum_then_normalize"
    scale: Scale = "group"
    mask_truncated: bool = False
    keep_texts: bool = False
    keep_images: bool = False
    within_tasks: bool = False
    writing: Callable[[], AbstractContextManager[None]] = nullcontext

    def collect(
        self,
        rows: Sequence[Row],
        *,
        num_generations: int,
        mode: Mode,
        trainer_state: Any = None,
        beside_scoring: Callable[[tuple[Rollout, ...]], None] | None = None,
    ) -> Collected:
        """Write and score a completion for each row; the rows of a group are consecutive over ranks.

        `beside_scoring` is called with this rank's rollouts when all are written, while rewards may still be computing.
        Every rank must call this; an exception on one ends it on all.
        """
        made: list[Writing] = []

        def work() -> Report:
            made.append(self.begin_alone(rows, num_generations, mode, trainer_state, beside_scoring))
            return self._conclude(made[0])

        reports = tuple(self.ranks.share(work))
        return self._collected(made[0], reports, made[0].step)

    def begin(
        self,
        rows: Sequence[Row],
        num_generations: int,
        mode: Mode,
        trainer_state: Any = None,
        beside_scoring: Callable[[tuple[Rollout, ...]], None] | None = None,
        counted: int | None = None,
    ) -> Writing:
        """The first half of `collect`: all is written, scores may be missing. `finish` waits for them.

        `counted`: how many of the rows are judged, None = all; a completion is written for the others too.
        """
        made: list[Writing] = []
        self.ranks.share(
            lambda: made.append(self.begin_alone(rows, num_generations, mode, trainer_state, beside_scoring, counted))
        )
        return made[0]

    def finish(self, writing: Writing, *, step: int) -> Collected:
        """The second half: wait for the scores and compare. `step`: that of the policy that will learn from it."""
        return self._collected(writing, tuple(self.ranks.share(lambda: self._conclude(writing))), step)

    def judged(self, rollouts: tuple[Rollout, ...], table: ScoreTable, num_generations: int) -> Collected:
        """What rollouts come to that are scored already; `table` is this rank's. Every rank must call this."""
        reports = tuple(self.ranks.share(lambda: self._report(rollouts, table)))
        return Collected(rollouts, reports, self._compare(reports, num_generations), self.ranks.index)

    def begin_alone(
        self,
        rows: Sequence[Row],
        num_generations: int,
        mode: Mode,
        trainer_state: Any,
        beside_scoring: Callable[[tuple[Rollout, ...]], None] | None = None,
        counted: int | None = None,
    ) -> Writing:
        """`begin` without a word to the other ranks."""
        counted = len(rows) if counted is None else counted
        # A group may span two ranks; a rank that holds no whole group scores its rollouts one by one.
        whole = num_generations if counted % num_generations == 0 else 1
        step = getattr(trainer_state, "global_step", 0)
        work = Assignment(rows, self.sampling, num_generations, mode, step, trainer_state)
        before: list[Rollout] = []
        if self.writer.late_columns:
            before = self._write(work, lambda rollout: None)
            rows = [rollout.row for rollout in before]
        judged = rows[:counted]
        session = self.scorer.open(judged, num_generations=whole, trainer_state=trainer_state, mode=mode, step=step)

        def submit(rollout: Rollout) -> None:
            if rollout.index < counted:
                session.submit(rollout)

        try:
            for rollout in before:
                submit(rollout)
            written = tuple(before or self._write(work, submit))
            if beside_scoring is not None:
                beside_scoring(written)
        except BaseException:
            session.cancel()
            raise
        return Writing(written, session, num_generations, step, counted)

    def _write(self, work: Assignment, finished: Callable[[Rollout], None]) -> list[Rollout]:
        with self.writing():
            return self.writer.write(work, finished)

    def _conclude(self, writing: Writing) -> Report:
        try:
            with writing.session as session:
                return self._report(writing.rollouts[: writing.counted], session.result())
        finally:
            self.writer.scored(writing.rollouts)

    def _collected(self, writing: Writing, reports: tuple[Report, ...], step: int) -> Collected:
        advantages = self._compare(reports, writing.num_generations)
        rollouts = writing.rollouts[: writing.counted]
        return Collected(rollouts, reports, advantages, self.ranks.index, step - writing.step)

    def learnt(self, rollout: Rollout) -> tuple[int, ...]:
        """Per completion token, 1 where it counts in the loss."""
        cut = rollout.finish_reason == "length" and self.mask_truncated
        if cut or rollout.finish_reason == "abort":
            return (0,) * len(rollout.completion_ids)
        return rollout.tool_mask or (1,) * len(rollout.completion_ids)

    def _report(self, rollouts: Sequence[Rollout], table: ScoreTable) -> Report:
        own = [
            len(rollout.completion_ids) if rollout.tool_mask is None else sum(rollout.tool_mask) for rollout in rollouts
        ]
        return Report(
            # What a failure holds may not travel between processes, and only this rank speaks of its own.
            table=replace(table, failures=())
            if self.keep_texts
            else replace(table, failures=(), columns={}, logged={}),
            prompt_tokens=sum(len(rollout.prompt_ids) for rollout in rollouts),
            lengths=tuple(own),
            truncated=tuple(rollout.finish_reason == "length" for rollout in rollouts),
            tool_uses=tuple(rollout.tool_uses for rollout in rollouts),
            metrics=tuple(rollout.metrics for rollout in rollouts),
            tasks=tuple(task_of(rollout.row.columns) for rollout in rollouts),
            learnt_tokens=sum(sum(self.learnt(rollout)) for rollout in rollouts),
            texts=tuple(
                (without_images(rollout.row.prompt), without_images(rollout.completion)) for rollout in rollouts
            )
            if self.keep_texts
            else None,
            images=tuple((*images_in(rollout.row.prompt), *images_in(rollout.completion)) for rollout in rollouts)
            if self.keep_images
            else None,
        )

    def _compare(self, reports: Sequence[Report], num_generations: int) -> Advantages:
        table = reports[0].table
        scores = [
            [float("nan") if score is None else score for score in row]
            for report in reports
            for row in report.table.scores
        ]
        tasks = [task for report in reports for task in report.tasks] if self.within_tasks else [None]
        return advantages_within_tasks(
            torch.tensor(scores, dtype=torch.float32).view(-1, len(table.names)),
            tasks,
            num_generations=num_generations,
            weights=table.weights,
            aggregation=self.aggregation,
            scale=self.scale,
            dropped=_dropped(reports, num_generations),
        )


def _dropped(reports: Sequence[Report], num_generations: int) -> set[int]:
    """Places in the whole batch that are dropped: all of a group, also where it spans two ranks."""
    groups: set[int] = set()
    before = 0
    for report in reports:
        groups |= {(before + index) // num_generations for index in report.table.dropped}
        before += len(report.lengths)
    return {group * num_generations + place for group in groups for place in range(num_generations)}
