"""One call of a reward: through cache, limits, breaker and executor, with its retries, to one outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from plaudit.scoring.executors.attempt import Attempt
from plaudit.scoring.outcome import Failure, Outcome, Request
from plaudit.scoring.plan import RewardPlan
from plaudit.types import Rollout

LONGEST_BACKOFF_S = 30.0
_CANCELLED = Outcome(failure=Failure("cancelled", "cancelled"))


class CallOwner(Protocol):
    """Who asked for a call: it is told the outcome exactly once, on any thread, unless it cancelled the call."""

    def call_ended(self, call: Call, outcome: Outcome) -> None: ...


class Call:
    """A reward over some rollouts. `key` names equal work of a deterministic reward."""

    __slots__ = (
        "_admitted",
        "_attempt",
        "_cache_key",
        "_owner",
        "_state",
        "_tries",
        "cancelled",
        "key",
        "plan",
        "rollouts",
    )

    def __init__(
        self, plan: RewardPlan, rollouts: Sequence[Rollout], key: bytes | None, *, trainer_state: Any, owner: CallOwner
    ) -> None:
        self.plan = plan
        self.rollouts = rollouts
        self.key = key
        self.cancelled = False
        self._owner = owner
        self._state = trainer_state
        self._tries = 0
        self._attempt: Attempt | None = None
        self._admitted = False
        self._cache_key: str | None = None

    def ask(self) -> None:
        """Take the outcome from the cache, or queue the first try."""
        cache = self.plan.runtime.cache
        if cache is not None:
            self._cache_key = self.plan.cache_key(self.rollouts[0])
            if self._cache_key is not None:
                cache.look_up(self._cache_key, self._looked_up)
                return
        self._try()

    def request(self) -> Request:
        """The request of one try, with copies of its own."""
        return self.plan.request(self.rollouts, self._state)

    def cancel(self) -> None:
        """The result is not wanted any more: do not start, or stop. The owner is not told."""
        self.cancelled = True
        attempt = self._attempt
        if attempt is not None and self._admitted:
            self.plan.runtime.executor.cancel(attempt)
            attempt.settle(_CANCELLED)

    def attempt_ended(self, attempt: Attempt, outcome: Outcome) -> None:
        """A try has ended: retry, or hand over the outcome. Called exactly once a try."""
        runtime, stats, failure = self.plan.runtime, self.plan.stats, outcome.failure
        if attempt.started:
            stats.latencies.append(attempt.ended - attempt.started)
            stats.waits.append(attempt.started - attempt.asked)
            stats.last_end = attempt.ended
        again = failure is not None and failure.retryable and self._tries < runtime.policy.retries
        # The breaker comes before the release, so that the next call already sees it open.
        if self.cancelled:
            runtime.breaker.withdrawn()
        elif failure is None:
            runtime.breaker.succeeded()
        elif not again and failure.kind != "breaker":
            runtime.breaker.failed(failure.message)
        runtime.admission.release(runtime.queue)
        if self.cancelled:
            return
        if failure is not None and again:
            self._retry(failure)
            return
        if failure is None and self._cache_key is not None and runtime.cache is not None:
            runtime.cache.keep(self._cache_key, runtime.name, outcome)
        self._owner.call_ended(self, outcome)

    def _looked_up(self, found: Outcome | None) -> None:
        if found is None:
            self._try()
        elif not self.cancelled:
            self.plan.stats.cache_hits.append(1)
            self._owner.call_ended(self, found)

    def _try(self) -> None:
        self._attempt = Attempt(self)
        self._admitted = False
        runtime = self.plan.runtime
        runtime.admission.request(runtime.queue, self._start)

    def _start(self) -> None:
        attempt, runtime = self._attempt, self.plan.runtime
        assert attempt is not None
        self._admitted = True
        if self.cancelled:
            attempt.settle(_CANCELLED)
        elif self._tries == 0 and not runtime.breaker.allows():
            attempt.settle(Outcome(failure=Failure("breaker", runtime.breaker.refusal())))
        else:
            runtime.executor.submit(attempt)

    def _retry(self, failure: Failure) -> None:
        runtime = self.plan.runtime
        delay_s = min(runtime.policy.backoff_s * 2**self._tries, LONGEST_BACKOFF_S)
        self._tries += 1
        self.plan.stats.retries.append(failure.kind)
        runtime.later(delay_s, self._ask_again)

    def _ask_again(self) -> None:
        if not self.cancelled:
            self._try()
