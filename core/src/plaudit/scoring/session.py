"""Scoring one generation batch: rollouts come in as they finish, calls start at once, one table goes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from plaudit.errors import ContractError
from plaudit.scoring.errors import LengthError, RewardError
from plaudit.scoring.normalise import Breach
from plaudit.scoring.outcome import Failure, Outcome
from plaudit.scoring.plan import RewardPlan
from plaudit.scoring.runtime import Call
from plaudit.scoring.table import FailureRecord, ScoreTable
from plaudit.types import Rollout

if TYPE_CHECKING:
    from plaudit.scoring.scorer import Scorer

Mode = Literal["train", "eval"]


class ScoringSession:
    """Made by `Scorer.open`. `submit` each of the N rollouts in any order, from any thread, then take the `result`.

    Several sessions of one scorer may be open at once: the next batch can generate while this one's last scores arrive.
    """

    def __init__(
        self,
        scorer: Scorer,
        plans: Sequence[RewardPlan],
        *,
        count: int,
        group_size: int,
        trainer_state: Any,
        mode: Mode,
        step: int,
    ) -> None:
        self.plans = tuple(plans)
        self.count = count
        self.group_size = group_size
        self.mode: Mode = mode
        self.step = step
        self.submitted_at = float("-inf")
        self.failures: list[FailureRecord] = []
        self.zeroed: dict[int, set[int]] = {}
        self.dropped: set[int] = set()
        self._scorer = scorer
        self._trainer_state = trainer_state
        self._rollouts: list[Rollout | None] = [None] * count
        self._unsubmitted = count
        self._open_cells = count * len(self.plans)
        self._calls: set[Call] = set()
        self._waiting_on: dict[int, list[int]] = {}
        for k, plan in enumerate(self.plans):
            if plan.after is not None:
                self._waiting_on.setdefault(plan.after[0], []).append(k)
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._table: ScoreTable | None = None
        if self._open_cells == 0:
            self._finished.set()

    def submit(self, rollout: Rollout) -> None:
        """Hand over a finished rollout: what can be scored now starts now. Never blocks on a reward.

        Raises ContractError on an index that is out of range or was submitted before.
        """
        index = rollout.index
        with self._lock:
            if not 0 <= index < self.count or self._rollouts[index] is not None:
                raise ContractError(f"rollout {index} of {self.count} was submitted twice or is out of range")
            self._rollouts[index] = rollout
            self._unsubmitted -= 1
            if self._unsubmitted == 0:
                self.submitted_at = time.monotonic()
            ready = [(k, unit) for k, plan in enumerate(self.plans) if (unit := plan.arrived(index)) is not None]
        for k, unit in ready:
            self._start(k, unit)

    def result(self) -> ScoreTable:
        """Block until every score is in, and return the table; the same one when called again.

        Raises RewardError (on_error = raise), LengthError or LogError (contract), or ScoringPaused. Where the scorer
        has a `reduce`, every rank must call this, and an error on one rank is raised on all.
        """
        if self._table is None:
            if self._unsubmitted:
                raise ContractError(f"{self._unsubmitted} of {self.count} rollouts were never submitted for scoring")
            asked = time.monotonic()
            try:
                self._finished.wait()
            except BaseException:
                self.cancel()
                raise
            self._table = self._scorer.conclude(self, self._error, asked)
        return self._table

    @property
    def done(self) -> bool:
        """Whether `result` would return without waiting."""
        return self._finished.is_set()

    def cancel(self) -> None:
        """Stop everything that is under way; `result` then has nothing to give."""
        self._fail(ContractError("the scoring of this batch was cancelled"))

    def __enter__(self) -> ScoringSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished.is_set():
            self.cancel()
        self._scorer.forget(self)

    def _start(self, k: int, unit: int) -> None:
        """Call the reward on those rollouts of a unit that its gates let through; the others get no score."""
        plan = self.plans[k]
        rollouts = [rollout for i in plan.members(unit) if (rollout := self._rollouts[i]) is not None]
        if not plan.runs_everywhere:
            before = None if plan.after is None else self.plans[plan.after[0]]
            try:
                allowed = [rollout for rollout in rollouts if plan.runs_on(rollout, before)]
            except Exception as error:
                self._fail(
                    RewardError(f"the gate of reward '{plan.runtime.name}' failed: {type(error).__name__}: {error}")
                )
                return
            kept = {rollout.index for rollout in allowed}
            self._close(k, [rollout.index for rollout in rollouts if rollout.index not in kept])
            rollouts = allowed
        if rollouts:
            self._call(k, rollouts)

    def _call(self, k: int, rollouts: list[Rollout]) -> None:
        plan = self.plans[k]
        key = plan.work_key(rollouts[0]) if plan.keyed else None
        if key is not None:
            with self._lock:
                twins = plan.work.setdefault(key, [])
                twins.append(rollouts[0].index)
                outcome = plan.finished_work.get(key)
                if outcome is None and len(twins) > 1:
                    plan.stats.shared += 1
                    return
            if outcome is not None:
                plan.stats.shared += 1
                self._take(k, (rollouts[0].index,), outcome)
                return
        indices = tuple(rollout.index for rollout in rollouts)

        def done(outcome: Outcome) -> None:
            self._done(k, indices, key, call, outcome)

        state = self._trainer_state
        call = plan.runtime.new_call(
            lambda: plan.request(rollouts, state), plan.stats, done, plan.cache_key(rollouts[0])
        )
        with self._lock:
            self._calls.add(call)
            failed = self._error is not None
        if not failed:
            call.ask()

    def _done(self, k: int, indices: tuple[int, ...], key: bytes | None, call: Call, outcome: Outcome) -> None:
        plan = self.plans[k]
        with self._lock:
            self._calls.discard(call)
            if key is not None:
                plan.finished_work[key] = outcome
                indices = tuple(plan.work[key])
        if key is None or len(indices) == 1:
            self._take(k, indices, outcome)
            return
        for index in indices:
            self._take(k, (index,), outcome)

    def _take(self, k: int, indices: tuple[int, ...], outcome: Outcome) -> None:
        """Store what one call said of its rollouts."""
        plan = self.plans[k]
        if outcome.failure is not None:
            self._failed(k, indices, outcome.failure)
        else:
            for index, value in zip(indices, outcome.values, strict=True):
                if type(value) is Breach:
                    self._failed(k, (index,), Failure(value.kind, value.message))
                else:
                    plan.values[index] = value
            if outcome.columns or outcome.metrics:
                with self._lock:
                    plan.keep_logged(indices, outcome)
        self._close(k, indices)

    def _failed(self, k: int, indices: tuple[int, ...], failure: Failure) -> None:
        plan = self.plans[k]
        with self._lock:
            plan.stats.failures[failure.kind] += len(indices)
            self.failures.append(FailureRecord(plan.runtime.name, indices, failure.kind, failure.message))
            on_error = plan.runtime.policy.on_error
            if on_error == "zero":
                self.zeroed.setdefault(k, set()).update(indices)
            elif on_error == "drop_group":
                self.dropped.update(i for index in indices for i in self._group_of(index))
        if failure.always:
            self._fail(failure.error or LengthError(failure.message))
        elif on_error == "raise":
            where = f"rollout {indices[0]}" if len(indices) == 1 else f"rollouts {indices[0]}–{indices[-1]}"
            raised = RewardError(
                f"reward '{plan.runtime.name}' failed on {where}: {failure.message} (on_error = raise)"
            )
            raised.__cause__ = failure.error
            self._fail(raised)

    def _close(self, k: int, indices: Sequence[int]) -> None:
        """These cells are final: start what waited for them, and end the session with the last one."""
        if not indices:
            return
        ready: list[tuple[int, int]] = []
        with self._lock:
            for j in self._waiting_on.get(k, ()):
                plan = self.plans[j]
                ready += [(j, unit) for index in indices if (unit := plan.arrived(index)) is not None]
            self._open_cells -= len(indices)
            last = self._open_cells == 0
        if last:
            self._finished.set()
        for j, unit in ready:
            self._start(j, unit)

    def _group_of(self, index: int) -> range:
        first = index - index % self.group_size
        return range(first, min(first + self.group_size, self.count))

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._finished.is_set():
                return
            self._error = self._error or error
            calls = list(self._calls)
            self._calls.clear()
            self._finished.set()
        for call in calls:
            call.cancel()
