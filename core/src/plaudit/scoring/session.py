"""Scoring one generation batch: rollouts come in as they finish, calls start at once, one table goes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from plaudit.errors import ContractError
from plaudit.scoring.call import Call
from plaudit.scoring.errors import LengthError, RewardError
from plaudit.scoring.normalise import Breach
from plaudit.scoring.outcome import Failure, Outcome, described
from plaudit.scoring.plan import RewardPlan
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
        self.dropped: set[int] = set()
        self._scorer = scorer
        self._trainer_state = trainer_state
        self._rollouts: list[Rollout | None] = [None] * count
        self._unsubmitted = count
        self._open_cells = count * len(self.plans)
        self._calls: set[Call] = set()
        self._waiting_on: dict[RewardPlan, list[RewardPlan]] = {}
        for plan in self.plans:
            if plan.after is not None:
                self._waiting_on.setdefault(self.plans[plan.after[0]], []).append(plan)
        self._immediate_plans = [plan for plan in self.plans if plan.size == 1 and plan.runs_everywhere]
        self._waiting_plans = [plan for plan in self.plans if plan not in self._immediate_plans]
        self._lock = threading.Lock()
        self._finished = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
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
            ready = [(plan, unit) for plan in self._waiting_plans if (unit := plan.arrived(index)) is not None]
        given_up = rollout.finish_reason == "abort"
        for plan in self._immediate_plans:
            self._start(plan, index) if given_up else self._call(plan, [rollout])
        for plan, unit in ready:
            self._start(plan, unit)

    def result(self) -> ScoreTable:
        """Block until every score is in, and return the table; the same one when called again.

        Raises RewardError (on_error = raise), LengthError or LogError (contract), or ScoringPaused. Where the scorer
        has a `reduce`, every rank must call this, and an error on one rank is raised on all.
        """
        if self._table is None:
            if self._unsubmitted and self._error is None:
                raise ContractError(f"{self._unsubmitted} of {self.count} rollouts were never submitted for scoring")
            asked = time.monotonic()
            try:
                self._finished.wait()
            except BaseException:
                self.cancel()
                raise
            self._table = self._scorer.conclude(self, self._error, asked)
        return self._table

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback`, on any thread, as soon as `result` would not wait; at once if that is so now."""
        with self._lock:
            if not self._finished.is_set():
                self._callbacks.append(callback)
                return
        callback()

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

    def call_ended(self, call: Call, outcome: Outcome) -> None:
        """Store what one call said of its rollouts, and of others that are the same work."""
        plan = call.plan
        self._calls.discard(call)
        if call.key is None:
            self._take(plan, [rollout.index for rollout in call.rollouts], outcome)
            return
        with self._lock:
            plan.finished_work[call.key] = outcome
            indices = plan.work[call.key]
        for index in indices:
            self._take(plan, [index], outcome)

    def _start(self, plan: RewardPlan, unit: int) -> None:
        """Call the reward on those rollouts of a unit that its gates let through; the others get no score."""
        rollouts = [rollout for i in plan.members(unit) if (rollout := self._rollouts[i]) is not None]
        if not plan.runs_everywhere or any(rollout.finish_reason == "abort" for rollout in rollouts):
            before = None if plan.after is None else self.plans[plan.after[0]]
            try:
                allowed = [rollout for rollout in rollouts if plan.runs_on(rollout, before)]
            except Exception as error:
                self._fail(RewardError(f"the gate of reward '{plan.runtime.name}' failed: {described(error)}"))
                return
            with self._lock:
                plan.stats.gated += len(rollouts) - len(allowed)
            kept = {rollout.index for rollout in allowed}
            self._close(plan, [rollout.index for rollout in rollouts if rollout.index not in kept])
            rollouts = allowed
        if rollouts:
            self._call(plan, rollouts)

    def _call(self, plan: RewardPlan, rollouts: list[Rollout]) -> None:
        key = plan.work_key(rollouts[0]) if plan.keyed else None
        if key is not None:
            with self._lock:
                found = plan.join(key, rollouts[0].index)
            if isinstance(found, Outcome):
                self._take(plan, [rollouts[0].index], found)
            if found is not None:
                return
        call = Call(plan, rollouts, key, trainer_state=self._trainer_state, owner=self)
        self._calls.add(call)
        if self._error is None:
            call.ask()

    def _take(self, plan: RewardPlan, indices: Sequence[int], outcome: Outcome) -> None:
        if outcome.failure is not None:
            self._failed(plan, indices, outcome.failure)
        else:
            for index, value in zip(indices, outcome.values, strict=True):
                if type(value) is Breach:
                    self._failed(plan, [index], Failure(value.kind, value.message))
                else:
                    plan.values[index] = value
            if outcome.columns or outcome.metrics:
                with self._lock:
                    plan.keep_logged(indices, outcome)
        self._close(plan, indices)

    def _failed(self, plan: RewardPlan, indices: Sequence[int], failure: Failure) -> None:
        name, on_error = plan.runtime.name, plan.runtime.policy.on_error
        with self._lock:
            plan.stats.failures[failure.kind] += len(indices)
            self.failures.append(FailureRecord(name, tuple(indices), failure.kind, failure.message))
            if on_error == "zero":
                plan.zeroed.update(indices)
            elif on_error == "drop_group":
                self.dropped.update(i for index in indices for i in self._group_of(index))
        if failure.always:
            self._fail(failure.error or LengthError(failure.message))
        elif on_error == "raise":
            where = f"rollout {indices[0]}" if len(indices) == 1 else f"rollouts {indices[0]}–{indices[-1]}"
            raised = RewardError(f"reward '{name}' failed on {where}: {failure.message} (on_error = raise)")
            raised.__cause__ = failure.error
            self._fail(raised)

    def _close(self, plan: RewardPlan, indices: Sequence[int]) -> None:
        """These cells are final: start what waited for them, and end the session with the last one."""
        followers = self._waiting_on.get(plan, ())
        with self._lock:
            ready = [
                (waiting, unit)
                for waiting in followers
                for index in indices
                if (unit := waiting.arrived(index)) is not None
            ]
            self._open_cells -= len(indices)
            last = self._open_cells == 0
        if last:
            self._finish()
        for waiting, unit in ready:
            self._start(waiting, unit)

    def _group_of(self, index: int) -> range:
        return range(first := index - index % self.group_size, min(first + self.group_size, self.count))

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._finished.is_set():
                return
            self._error = self._error or error
            calls = list(self._calls)
            self._calls.clear()
        self._finish()
        for call in calls:
            call.cancel()

    def _finish(self) -> None:
        with self._lock:
            self._finished.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
