"""One try of one call: what an executor is given, and gives back exactly once."""

from __future__ import annotations

import threading
import time
from typing import Any, Protocol

from plaudit.plugins.component import Reward
from plaudit.scoring.outcome import Failure, Outcome, Request, failure_of, perform, perform_async


class AttemptOwner(Protocol):
    """The call that an attempt is a try of. `plan.runtime` has the spec with its reward, and the policy."""

    plan: Any

    def request(self) -> Request: ...

    def attempt_ended(self, attempt: Attempt, outcome: Outcome) -> None: ...


class Attempt:
    """One try. Whoever settles it first (lane, clock or cancellation) decides, and later outcomes are dropped.

    So a late result of an abandoned call can never reach a table. `timeout_s` counts from `started`. `repeatable`: it
    may start again when the loop that it ran on is lost. `thread_note`: what a timeout on a thread adds to its message.
    """

    __slots__ = ("_once", "_owner", "asked", "cancelled", "ended", "retry_on", "reward", "started", "timeout_s")

    repeatable = True
    thread_note = " (on a thread, which cannot be killed; executor = 'process' can)"

    def __init__(self, owner: AttemptOwner) -> None:
        runtime = owner.plan.runtime
        self._owner = owner
        self.reward: Reward = runtime.spec.reward
        self.timeout_s: float | None = runtime.policy.timeout_s
        self.retry_on: tuple[type[BaseException], ...] = runtime.policy.retry_on
        self.asked = time.monotonic()
        self.started = 0.0
        self.ended = 0.0
        self.cancelled = False
        self._once = threading.Lock()

    @property
    def name(self) -> str:
        """What warnings call it."""
        return f"reward '{self.reward.__name__}'"

    def begin(self) -> None:
        """The reward is about to run: its time starts to count."""
        self.started = time.monotonic()

    def request(self) -> Request:
        """What to run: made anew for each attempt, with copies of its own."""
        return self._owner.request()

    def execute(self) -> Outcome:
        """Run it here: for synchronous rewards, on the calling thread."""
        try:
            request = self._owner.request()
        except BaseException as error:
            return Outcome(failure=failure_of(error, self.retry_on))
        return perform(self.reward, request, self.retry_on)

    async def execute_async(self) -> Outcome:
        """Run it on the loop: for asynchronous rewards."""
        try:
            request = self._owner.request()
        except Exception as error:
            return Outcome(failure=failure_of(error, self.retry_on))
        return await perform_async(self.reward, request, self.retry_on)

    @property
    def deadline(self) -> float:
        """When it must have ended, in monotonic seconds; infinity without a timeout."""
        return float("inf") if self.timeout_s is None else self.started + self.timeout_s

    @property
    def settled(self) -> bool:
        """Whether an outcome has been taken."""
        return self._once.locked()

    def settle(self, outcome: Outcome) -> bool:
        """Hand over the outcome; False when another one came first."""
        if not self._once.acquire(blocking=False):
            return False
        self.ended = time.monotonic()
        self._owner.attempt_ended(self, outcome)
        return True

    def timed_out(self, note: str = "") -> bool:
        """Settle as a timeout."""
        message = f"no answer within timeout_s = {self.timeout_s:g}{note}"
        return self.settle(Outcome(failure=Failure("timeout", message)))


class Executor(Protocol):
    """Runs attempts. `submit` never blocks; `close` stops what can be stopped and returns the names of what cannot."""

    def submit(self, attempt: Attempt) -> None: ...

    def cancel(self, attempt: Attempt) -> None: ...

    def close(self) -> list[str]: ...
