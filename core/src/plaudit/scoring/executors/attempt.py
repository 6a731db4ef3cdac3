"""One try of one call: what an executor is given, and gives back exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from plaudit.plugins.component import Reward
from plaudit.scoring.outcome import Failure, Outcome, Request, failure_of, perform


class Attempt:
    """A request to run a reward, with the callback that takes the outcome.

    `timeout_s` counts from `started`. Whoever settles first (the lane, the clock, a cancellation) decides; later
    outcomes are dropped, so a late result of an abandoned call can never reach a table.
    """

    __slots__ = (
        "_once",
        "asked",
        "cancelled",
        "ended",
        "make_request",
        "on_done",
        "retry_on",
        "reward",
        "started",
        "timeout_s",
    )

    def __init__(
        self,
        reward: Reward,
        make_request: Callable[[], Request],
        on_done: Callable[[Attempt, Outcome], None],
        *,
        timeout_s: float | None,
        retry_on: tuple[type[BaseException], ...],
    ) -> None:
        self.reward = reward
        self.make_request = make_request
        self.on_done = on_done
        self.timeout_s = timeout_s
        self.retry_on = retry_on
        self.asked = time.monotonic()
        self.started = 0.0
        self.ended = 0.0
        self.cancelled = False
        self._once = threading.Lock()

    def begin(self) -> None:
        """The reward is about to run: its time starts to count."""
        self.started = time.monotonic()

    def execute(self) -> Outcome:
        """Run it here: for synchronous rewards, on the calling thread."""
        try:
            request = self.make_request()
        except BaseException as error:
            return Outcome(failure=failure_of(error, self.retry_on))
        return perform(self.reward, request, self.retry_on)

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
        self.on_done(self, outcome)
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
