"""One reward at run time: its calls go through breaker, limits, executor, retries, and come back as one outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plaudit.scoring.admission import Admission
from plaudit.scoring.breaker import Breaker
from plaudit.scoring.cache import ScoreCache
from plaudit.scoring.clock import Clock
from plaudit.scoring.executors.attempt import Attempt, Executor
from plaudit.scoring.outcome import Failure, Outcome, Request
from plaudit.scoring.policy import Policy
from plaudit.scoring.schedules import Schedule, as_schedule
from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.stats import Stats

LONGEST_BACKOFF_S = 30.0
Done = Callable[[Outcome], None]
_CANCELLED = Outcome(failure=Failure("cancelled", "cancelled"))


class RewardRuntime:
    """What a scorer keeps of one reward over all steps."""

    def __init__(
        self,
        spec: RewardSpec,
        policy: Policy,
        *,
        executor: Executor,
        admission: Admission,
        clock: Clock,
        cache: ScoreCache | None = None,
        identity: str = "",
    ) -> None:
        self.spec = spec
        self.policy = policy
        self.executor = executor
        self.schedule: Schedule = as_schedule(spec.weight)
        self.breaker = Breaker(spec.name, failures=policy.breaker_failures, cooldown_s=policy.breaker_cooldown_s)
        self.cache = cache if policy.cache else None
        self.identity = identity
        self._admission = admission
        self._queue = admission.queue(limit=policy.max_concurrency, requests_per_s=policy.requests_per_s)
        self._clock = clock

    @property
    def name(self) -> str:
        """The reward's name in the run."""
        return self.spec.name

    def new_call(self, make_request: Callable[[], Request], stats: Stats, done: Done, cache_key: str | None) -> Call:
        """A call that `ask` starts when the limits let it; `done` gets the outcome once, on any thread."""
        return Call(self, make_request, stats, done, cache_key)

    def admit(self, start: Callable[[], None]) -> None:
        """Run `start` when the concurrency and rate limits let it."""
        self._admission.request(self._queue, start)

    def release(self) -> None:
        """What was admitted has ended."""
        self._admission.release(self._queue)

    def later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Run `callback` after a delay."""
        self._clock.call_later(delay_s, callback)

    def state_dict(self) -> dict[str, Any]:
        """Breaker and adaptive weight."""
        return {"breaker": self.breaker.state_dict(), "weight": getattr(self.schedule, "weight", None)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict`."""
        self.breaker.load_state_dict(state["breaker"])
        if state["weight"] is not None and hasattr(self.schedule, "weight"):
            self.schedule.weight = state["weight"]


class Call:
    """One call, with its retries."""

    __slots__ = (
        "_admitted",
        "_attempt",
        "_cache_key",
        "_done",
        "_make_request",
        "_runtime",
        "_stats",
        "_tries",
        "cancelled",
    )

    def __init__(
        self,
        runtime: RewardRuntime,
        make_request: Callable[[], Request],
        stats: Stats,
        done: Done,
        cache_key: str | None,
    ) -> None:
        self._runtime = runtime
        self._make_request = make_request
        self._stats = stats
        self._done = done
        self._cache_key = cache_key
        self._tries = 0
        self._attempt: Attempt | None = None
        self._admitted = False
        self.cancelled = False

    def ask(self) -> None:
        """Take the outcome from the cache, or queue the first try."""
        cache = self._runtime.cache
        if cache is None or self._cache_key is None:
            self._try()
        else:
            cache.look_up(self._cache_key, self._looked_up)

    def _looked_up(self, found: Outcome | None) -> None:
        if found is None:
            self._try()
        elif not self.cancelled:
            self._stats.cache_hits.append(1)
            self._done(found)

    def _try(self) -> None:
        """Queue the next try."""
        runtime = self._runtime
        policy = runtime.policy
        self._attempt = Attempt(
            runtime.spec.reward, self._make_request, self._ended, timeout_s=policy.timeout_s, retry_on=policy.retry_on
        )
        self._admitted = False
        runtime.admit(self._start)

    def cancel(self) -> None:
        """The result is not wanted any more: do not start, or stop. `done` is not called afterwards."""
        self.cancelled = True
        attempt = self._attempt
        if attempt is not None and self._admitted:
            self._runtime.executor.cancel(attempt)
            attempt.settle(_CANCELLED)

    def _start(self) -> None:
        attempt, runtime = self._attempt, self._runtime
        assert attempt is not None
        self._admitted = True
        if self.cancelled:
            attempt.settle(_CANCELLED)
        elif self._tries == 0 and not runtime.breaker.allows():
            attempt.settle(Outcome(failure=Failure("breaker", runtime.breaker.refusal())))
        else:
            runtime.executor.submit(attempt)

    def _ended(self, attempt: Attempt, outcome: Outcome) -> None:
        runtime, failure = self._runtime, outcome.failure
        if attempt.started:
            self._stats.latencies.append(attempt.ended - attempt.started)
            self._stats.waits.append(attempt.started - attempt.asked)
            self._stats.last_end = attempt.ended
        runtime.release()
        if self.cancelled:
            runtime.breaker.withdrawn()
            return
        if failure is not None and failure.retryable and self._tries < runtime.policy.retries:
            self._retry(failure)
            return
        if failure is None:
            runtime.breaker.succeeded()
            if runtime.cache is not None and self._cache_key is not None:
                runtime.cache.keep(self._cache_key, runtime.name, outcome)
        elif failure.kind != "breaker":
            runtime.breaker.failed(failure.message)
        self._done(outcome)

    def _retry(self, failure: Failure) -> None:
        runtime = self._runtime
        delay_s = min(runtime.policy.backoff_s * 2**self._tries, LONGEST_BACKOFF_S)
        self._tries += 1
        self._stats.retries.append(failure.kind)
        runtime.later(delay_s, self._ask_again)

    def _ask_again(self) -> None:
        if not self.cancelled:
            self._try()
