"""One event loop in a daemon thread for all asynchronous rewards, environment rewards, tools and resets."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from typing import Any

from plaudit.scoring.clock import Clock
from plaudit.scoring.executors.attempt import Attempt
from plaudit.scoring.outcome import Failure, Outcome

PING_S = 0.05
BLOCKED_S = 1.0
CLOSE_S = 2.0
_log = logging.getLogger("plaudit.scoring")


class LoopThread:
    """An event loop that runs until closed, even if a coroutine stops it or lets a SystemExit out."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.tasks: dict[Attempt, asyncio.Task[None]] = {}
        self.answered = time.monotonic()
        self.asked = self.answered
        self.warned: Attempt | None = None
        self._closed = False
        self.thread = threading.Thread(target=self._main, name="plaudit-loop", daemon=True)
        self.thread.start()

    def ping(self) -> None:
        """Ask the loop for a sign of life; `answered` is when the last one came."""
        if self.answered >= self.asked:
            self.asked = time.monotonic()
            self.call(self._answer)

    def lag(self, now: float) -> float:
        """Seconds since a sign of life was asked for that has not come."""
        return 0.0 if self.answered >= self.asked else now - self.asked

    def call(self, function: Any, *arguments: Any) -> None:
        """Run a function on the loop's thread."""
        try:
            self.loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            _log.debug("the loop is closed; dropped %r", function)

    def current(self) -> Attempt | None:
        """The attempt whose code the loop is in at this moment."""
        task = asyncio.current_task(self.loop)
        return next((attempt for attempt, one in tuple(self.tasks.items()) if one is task), None)

    def close(self) -> bool:
        """Cancel all tasks and end the thread; False when a coroutine blocks it."""
        self._closed = True
        self.call(self._cancel_all)
        if threading.current_thread() is not self.thread:
            self.thread.join(CLOSE_S)
        return not self.thread.is_alive()

    def _answer(self) -> None:
        self.answered = time.monotonic()

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.call_later(0.05 if tasks else 0, self.loop.stop)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._closed:
            try:
                self.loop.run_forever()
            except BaseException as error:  # a task that a reward started let SystemExit or KeyboardInterrupt out
                _log.warning("a coroutine on the scoring loop let %s out; the loop goes on", type(error).__name__)
        try:
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()


class LoopExecutor:
    """Runs attempts as tasks of one loop. A coroutine that blocks the loop past its timeout costs only itself.

    When that happens the loop's thread is given up and everything else that ran there starts again on a new loop.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._thread: LoopThread | None = None
        self._lost: list[LoopThread] = []
        self._new: deque[Attempt] = deque()
        self._called = False
        self._lock = threading.Lock()
        self._pid = os.getpid()
        clock.watch(self._watch)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; started on first use."""
        return self._running().loop

    def submit(self, attempt: Attempt) -> None:
        """Start an attempt on the loop."""
        self._new.append(attempt)
        if not self._called:
            self._called = True
            thread = self._running()
            thread.call(self._start_new, thread)
        self._clock.poke()

    def cancel(self, attempt: Attempt) -> None:
        """Cancel its task."""
        attempt.cancelled = True
        thread = self._thread
        task = thread.tasks.get(attempt) if thread is not None else None
        if thread is not None and task is not None:
            thread.call(task.cancel)

    def close(self) -> list[str]:
        """End the loop. Returns the names of threads that a coroutine blocks."""
        threads = [*self._lost, *([self._thread] if self._thread else [])]
        stuck = [thread for thread in threads if not thread.close()]
        self._thread, self._lost = None, []
        return [thread.thread.name for thread in stuck]

    def _running(self) -> LoopThread:
        thread = self._thread
        if thread is None:
            with self._lock:
                thread = self._thread = self._thread or LoopThread()
        return thread

    def _start_new(self, thread: LoopThread) -> None:
        self._called = False
        while self._new:
            attempt = self._new.popleft()
            if not attempt.cancelled and not attempt.settled:
                attempt.begin()
                thread.tasks[attempt] = thread.loop.create_task(self._run(thread, attempt))

    async def _run(self, thread: LoopThread, attempt: Attempt) -> None:
        try:
            outcome = await attempt.execute_async()
            if os.getpid() != self._pid:
                os._exit(0)  # The reward forked, and this is the child: it must not go on as the trainer.
            if thread is self._thread:
                attempt.settle(outcome)
        finally:
            thread.tasks.pop(attempt, None)

    def _watch(self, now: float) -> float | None:
        thread = self._thread
        if thread is None or not (thread.tasks or self._new):
            return None
        thread.ping()
        lag = thread.lag(now)
        if lag > BLOCKED_S / 2:
            self._look_at_blocked(thread, lag, now)
        else:
            for attempt in [one for one in tuple(thread.tasks) if one.deadline <= now]:
                if attempt.timed_out():
                    self.cancel(attempt)
        return now + PING_S

    def _look_at_blocked(self, thread: LoopThread, lag: float, now: float) -> None:
        """The loop does not answer: whoever holds it is warned about, and alone pays with its timeout."""
        culprit = thread.current()
        if culprit is None:
            return
        if lag > BLOCKED_S and thread.warned is not culprit:
            thread.warned = culprit
            _log.warning("%s has blocked the event loop for %.1f s; use a sync function on threads", culprit.name, lag)
        if culprit.deadline > now:
            return
        others = [attempt for attempt in tuple(thread.tasks) if attempt is not culprit and not attempt.settled]
        with self._lock:
            self._lost.append(thread)
            self._thread = None
        culprit.settle(
            Outcome(failure=Failure("timeout", f"blocked the event loop past timeout_s = {culprit.timeout_s:g}"))
        )
        waiting = list(self._new)
        self._new.clear()
        self._called = False
        for attempt in [*others, *waiting]:
            if attempt.repeatable or attempt in waiting:
                self.submit(attempt)
            else:
                attempt.settle(Outcome(failure=Failure("lost", f"the loop it ran on was blocked by {culprit.name}")))
