"""Calls that score nothing, such as resets and tools, on the loop and the threads that rewards run on."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.building import is_coroutine_function
from plaudit.scoring.clock import Clock
from plaudit.scoring.executors.attempt import Attempt
from plaudit.scoring.executors.loop import LoopExecutor
from plaudit.scoring.executors.threads import ThreadPool
from plaudit.scoring.outcome import Failure, Outcome, failure_of
from plaudit.scoring.policy import DEFAULT_TIMEOUT_S

LONGEST_BACKOFF_S = 30.0


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """How a call is run. `timeout_s` is for one try, 0 = no limit.

    A try that raised one of `retry_on`, or timed out, is repeated `retries` times, after `backoff_s`, then twice that …
    """

    timeout_s: float = DEFAULT_TIMEOUT_S
    retries: int = 0
    backoff_s: float = 0.5
    retry_on: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)

    def __post_init__(self) -> None:
        """Raise UsageError on a value out of range."""
        if not self.timeout_s >= 0:
            raise UsageError(f"timeout_s = {self.timeout_s}; expected seconds, or 0 for no limit")
        if self.retries < 0:
            raise UsageError(f"retries = {self.retries}; expected 0 or more")


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a call came to: its `value`, or a `failure`. `seconds`: since it was asked for, all tries and waits."""

    value: Any
    failure: Failure | None
    seconds: float


@dataclass(slots=True, eq=False)
class Job:
    """A call: `function(**arguments)`, on the loop if it is a coroutine function, else on a thread.

    `label` names it in messages. `then` is called exactly once with the result, on any thread, unless it is cancelled.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    label: str
    policy: JobPolicy
    then: Callable[[JobResult], None]
    begun: float = field(default_factory=time.monotonic)
    tries: int = 0
    attempt: JobAttempt | None = None
    cancelled: bool = False


class JobAttempt(Attempt):
    """One try of a job."""

    __slots__ = ("_job", "_jobs")

    # What a reset or a tool has changed in the world is not undone.
    repeatable = False
    thread_note = " (on a thread, which cannot be killed)"

    def __init__(self, jobs: Jobs, job: Job) -> None:
        self._jobs = jobs
        self._job = job
        self.timeout_s = job.policy.timeout_s or None
        self.retry_on = job.policy.retry_on
        self.asked = time.monotonic()
        self.started = self.ended = 0.0
        self.cancelled = False
        self._once = threading.Lock()

    @property
    def name(self) -> str:
        return self._job.label

    def execute(self) -> Outcome:
        try:
            returned = self._job.function(**self._job.arguments)
            if inspect.isawaitable(returned):
                returned = self._jobs.wait(returned)
            return Outcome([returned])
        except BaseException as error:
            return Outcome(failure=failure_of(error, self.retry_on))

    async def execute_async(self) -> Outcome:
        try:
            return Outcome([await self._job.function(**self._job.arguments)])
        except BaseException as error:
            return Outcome(failure=failure_of(error, self.retry_on))

    def settle(self, outcome: Outcome) -> bool:
        if not self._once.acquire(blocking=False):
            return False
        self.ended = time.monotonic()
        self._jobs.ended(self._job, outcome)
        return True


class Jobs:
    """Runs jobs; made by `Scorer.jobs`. Synchronous ones are limited by its threads, asynchronous ones by nothing."""

    def __init__(self, clock: Clock, loop: LoopExecutor, threads: ThreadPool) -> None:
        self._clock = clock
        self._loop = loop
        self._threads = threads
        self._open: set[Job] = set()

    @property
    def closed(self) -> bool:
        """Whether the scorer has ended, so that nothing runs any more."""
        return self._threads.closed

    def submit(self, job: Job) -> Job:
        """Start a job; returns at once."""
        self._open.add(job)
        self._try(job)
        return job

    def cancel(self, job: Job) -> None:
        """Do not start it, or stop it; its `then` is not called."""
        job.cancelled = True
        self._open.discard(job)
        if job.attempt is not None:
            self._executor(job).cancel(job.attempt)

    def wait(self, awaitable: Any) -> Any:
        """Run what a synchronous function returned to be awaited, on the loop; blocks the calling thread."""
        import asyncio

        async def awaited() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop.loop).result()

    def ended(self, job: Job, outcome: Outcome) -> None:
        """A try of a job has ended: repeat it or report it."""
        if job.cancelled:
            return
        failure = outcome.failure
        again = failure is not None and (failure.retryable or failure.kind == "timeout")
        if again and job.tries < job.policy.retries:
            delay_s = min(job.policy.backoff_s * 2**job.tries, LONGEST_BACKOFF_S)
            job.tries += 1
            self._clock.call_later(delay_s, lambda: self._try(job))
            return
        self._open.discard(job)
        value = outcome.values[0] if failure is None else None
        job.then(JobResult(value, failure, time.monotonic() - job.begun))

    def _try(self, job: Job) -> None:
        if job.cancelled:
            return
        job.attempt = JobAttempt(self, job)
        self._executor(job).submit(job.attempt)

    def _executor(self, job: Job) -> LoopExecutor | ThreadPool:
        # A class is called on a thread, whatever its instances may be.
        on_loop = is_coroutine_function(job.function) and not inspect.isclass(job.function)
        return self._loop if on_loop else self._threads
