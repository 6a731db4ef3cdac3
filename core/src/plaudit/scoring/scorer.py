"""The scorer: the rewards of a run with the threads, loop and processes that they share over all steps."""

from __future__ import annotations

import asyncio
import logging
import os
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from plaudit.errors import UsageError
from plaudit.scoring.admission import Admission
from plaudit.scoring.cache import ScoreCache, identity_of
from plaudit.scoring.clock import Clock
from plaudit.scoring.conclusion import make_table, successes
from plaudit.scoring.errors import RewardError, ScoringPaused
from plaudit.scoring.executors.pools import Pools
from plaudit.scoring.gates import as_after, order_of
from plaudit.scoring.inputs import check_columns, column_names, state_copy
from plaudit.scoring.jobs import Jobs
from plaudit.scoring.plan import RewardPlan
from plaudit.scoring.policy import resolve
from plaudit.scoring.runtime import RewardRuntime
from plaudit.scoring.schedules import Adaptive
from plaudit.scoring.session import Mode, ScoringSession
from plaudit.scoring.spec import RewardSpec, unique_names
from plaudit.scoring.table import ScoreTable
from plaudit.scoring.watch import Watch
from plaudit.types import Row

Reduce = Callable[[list[float]], list[float]]
_log = logging.getLogger("plaudit.scoring")


class Scorer:
    """Opens one `ScoringSession` a generation batch. Close it, or use it as a context manager, to end its workers.

    `max_concurrency`: calls under way at once, over all rewards. `max_unscored_share`: more rollouts than this share
    without any score pause the run (None = never). `reduce`: element-wise sum of numbers over all ranks; with it,
    pauses, errors and adaptive weights are the same on every rank. `processes`: workers for each reward that runs in
    processes (default: the cores).
    """

    def __init__(
        self,
        rewards: Sequence[RewardSpec],
        *,
        max_concurrency: int = 256,
        max_unscored_share: float | None = 0.5,
        reduce: Reduce | None = None,
        processes: int | None = None,
        cache_folder: Path | None = None,
    ) -> None:
        specs = unique_names(rewards)
        if not specs:
            raise UsageError("there is no reward; name at least one")
        self.names = tuple(spec.name for spec in specs)
        self._after = tuple(as_after(spec.after) for spec in specs)
        self._order = order_of(self.names, self._after)
        self._max_unscored_share = max_unscored_share
        self._reduce = reduce
        self._clock = Clock()
        self._cache = ScoreCache(cache_folder)
        self._pools = Pools(self._clock, processes=processes)
        admission = Admission(self._clock, limit=max_concurrency)
        self.runtimes = tuple(self._runtime(spec, admission) for spec in specs)
        self._sessions: list[ScoringSession] = []
        self._twice: set[str] = set()
        self._watch = Watch()
        # A scorer that is never closed ends its workers when it is forgotten, or with the program.
        self._end = weakref.finalize(self, _end, os.getpid(), self._pools, self._cache, self._clock)

    def open(
        self,
        rows: Sequence[Row],
        *,
        num_generations: int,
        trainer_state: Any = None,
        mode: Mode = "train",
        step: int = 0,
    ) -> ScoringSession:
        """A session over N rollouts of `rows` (one a rollout; the G of a group consecutive). `step` sets the weights.

        Raises UsageError when a reward needs a column that the rows do not have.
        """
        if not self._end.alive:
            raise UsageError("this Scorer is closed; make a new one")
        session = ScoringSession(
            self,
            self._plans(rows, num_generations),
            count=len(rows),
            group_size=num_generations,
            trainer_state=state_copy(trainer_state),
            mode=mode,
            step=step,
        )
        self._sessions.append(session)
        return session

    def _plans(self, rows: Sequence[Row], group_size: int) -> list[RewardPlan]:
        columns = column_names(rows)
        for runtime in self.runtimes if rows else ():
            check_columns(runtime.name, runtime.spec.reward, columns)
        reserved = frozenset(self.names)
        return [
            RewardPlan(
                runtime,
                columns=columns,
                count=len(rows),
                group_size=group_size,
                after=None if gate is None or before is None else (before, gate[1]),
                reserved=reserved,
            )
            for runtime, gate, before in zip(self.runtimes, self._after, self._order, strict=True)
        ]

    def jobs(self, name: str, *, threads: int) -> Jobs:
        """Runs resets and tools of environments beside the rewards: on the same loop, and on threads of their own."""
        return Jobs(self._clock, self._pools.loop, self._pools.threads(name, threads))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that asynchronous rewards, resets and tools run on."""
        return self._pools.loop.loop

    def weights(self, step: int) -> tuple[float, ...]:
        """The K weights at a step."""
        return tuple(float(runtime.schedule(step)) for runtime in self.runtimes)

    def conclude(self, session: ScoringSession, error: BaseException | None, asked_at: float) -> ScoreTable:
        """The table of a session that has ended; called once by `ScoringSession.result`."""
        self.forget(session)
        adaptive = [(k, r.schedule) for k, r in enumerate(self.runtimes) if isinstance(r.schedule, Adaptive)]
        if error is not None:
            self._agree([1.0, 0.0, 0.0] + [0.0] * 2 * len(adaptive))
            raise error
        table = make_table(session, self.weights(session.step), self._twice, asked_at)
        counts = [count for k, schedule in adaptive for count in successes(table, k, schedule.success_at)]
        failed, unscored, total, *counted = self._agree(
            [0.0, float(len(table.unscored)), float(session.count), *counts]
        )
        if failed:
            raise RewardError(f"scoring failed on {failed:.0f} other ranks; their messages say why")
        self._watch.look(table, session.plans, group_size=session.group_size, step=session.step, mode=session.mode)
        if session.mode == "train":
            for place, (_, schedule) in enumerate(adaptive):
                schedule.update(*counted[2 * place : 2 * place + 2])
            self._check_unscored(int(unscored), int(total), table)
        return table

    def forget(self, session: ScoringSession) -> None:
        """The session has ended."""
        if session in self._sessions:
            self._sessions.remove(session)

    def state_dict(self) -> dict[str, Any]:
        """Breakers and adaptive weights by reward: what a checkpoint keeps."""
        return {"rewards": {runtime.name: runtime.state_dict() for runtime in self.runtimes}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict`; rewards that it does not know keep their fresh state."""
        for runtime in self.runtimes:
            if runtime.name in state["rewards"]:
                runtime.load_state_dict(state["rewards"][runtime.name])

    def close(self) -> None:
        """Cancel what is open, end all threads and processes; says so where a thread cannot be ended."""
        for session in tuple(self._sessions):
            session.cancel()
        self._end()

    def __enter__(self) -> Scorer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _runtime(self, spec: RewardSpec, admission: Admission) -> RewardRuntime:
        policy = resolve(spec)
        return RewardRuntime(
            spec,
            policy,
            executor=self._pools.executor(spec, policy),
            admission=admission,
            clock=self._clock,
            cache=self._cache,
            identity=identity_of(spec.name, spec.reward) if policy.cache else "",
        )

    def _agree(self, numbers: list[float]) -> list[float]:
        return self._reduce(numbers) if self._reduce is not None else numbers

    def _check_unscored(self, unscored: int, total: int, table: ScoreTable) -> None:
        limit = self._max_unscored_share
        if limit is None or not total or unscored / total <= limit:
            return
        causes = Counter(f"{f.reward}: {f.kind}" for f in table.failures for _ in f.rollouts)
        listed = ", ".join(f"{cause} × {count}" for cause, count in causes.most_common(3)) or "every reward abstained"
        raise ScoringPaused(
            f"{unscored} of {total} rollouts have no score, more than max_unscored_share = {limit:g} ({listed}). "
            "The run is paused at a checkpoint: repair the reward and resume",
            unscored=unscored,
            total=total,
        )


def _end(pid: int, pools: Pools, cache: ScoreCache, clock: Clock) -> None:
    """End everything that a scorer has started; in a forked child nothing, for it is all the parent's."""
    if os.getpid() != pid:
        return
    stuck = pools.close()
    cache.close()
    clock.close()
    if stuck:
        names = ", ".join(stuck)
        _log.warning("%d threads are stuck in calls that do not react and end with the program: %s", len(stuck), names)
