"""Threads for synchronous rewards. A thread cannot be killed: one that overruns is abandoned and replaced."""

from __future__ import annotations

import ctypes
import os
import queue
import threading
import time

from plaudit.scoring.clock import Clock
from plaudit.scoring.executors.attempt import Attempt

TICK_S = 0.02
DRAIN_S = 0.02
CLOSE_S = 2.0


class Abandoned(BaseException):
    """Raised inside a thread whose call overran, at its next bytecode: it ends pure Python loops."""


class Lane:
    """One thread of a pool and the attempt it is on."""

    def __init__(self, pool: ThreadPool, number: int) -> None:
        self.attempt: Attempt | None = None
        self.abandoned = False
        self._pool = pool
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._main, name=f"plaudit-{pool.name}-{number}", daemon=True)
        self.thread.start()

    def abandon(self, attempt: Attempt) -> bool:
        """Give this thread up if it is still on `attempt`, and ask it to stop."""
        with self._lock:
            if self.attempt is not attempt:
                return False
            self.abandoned = True
            ident = ctypes.c_ulong(self.thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(Abandoned))
            return True

    def _main(self) -> None:
        try:
            while self._next():
                pass
        except Abandoned:
            return

    def _next(self) -> bool:
        attempt = self._pool.waiting.get()
        if attempt is None:
            return False
        if attempt.cancelled or attempt.settled:
            return True
        attempt.begin()
        self.attempt = attempt
        outcome = attempt.execute()
        if os.getpid() != self._pool.pid:
            os._exit(0)  # The reward forked, and this is the child: it must not go on as the trainer.
        with self._lock:
            self.attempt = None
        if self.abandoned:
            return False
        attempt.settle(outcome)
        self._pool.finished += 1
        return True


class ThreadPool:
    """The threads of one reward. They are started when calls wait, so many cheap calls need few of them.

    A pool has at most `limit` threads at work; those that were abandoned do not count, so hung calls never fill it.
    """

    def __init__(self, clock: Clock, *, name: str, limit: int) -> None:
        self.name = name
        self.pid = os.getpid()
        self.waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self.lanes: list[Lane] = []
        self.abandoned: list[Lane] = []
        self.finished = 0
        self._clock = clock
        self._limit = limit
        self._started = 0
        self._closed = False
        self._seen = (0, 0.0)
        self._lock = threading.Lock()
        clock.watch(self._watch)

    @property
    def closed(self) -> bool:
        """Whether `close` was called: nothing that is submitted runs any more."""
        return self._closed

    def submit(self, attempt: Attempt) -> None:
        """Queue an attempt; a thread takes it up at once if one is free, within a millisecond or two if not."""
        self.waiting.put(attempt)
        if not self.lanes:
            self._grow(1)
        self._clock.poke()

    def cancel(self, attempt: Attempt) -> None:
        """Do not start it; if it is running, give its thread up."""
        attempt.cancelled = True
        self._abandon(attempt)

    def close(self) -> list[str]:
        """End the threads. Returns the names of those that are stuck in a call that does not react."""
        with self._lock:
            self._closed = True
        for lane in tuple(self.lanes):
            if lane.attempt is not None:
                self.cancel(lane.attempt)
        while not self.waiting.empty():
            self.waiting.get_nowait()
        for _ in range(len(self.lanes) + len(self.abandoned)):
            self.waiting.put(None)
        until = time.monotonic() + CLOSE_S
        everyone = [*self.lanes, *self.abandoned]
        for lane in everyone:
            if lane.thread is not threading.current_thread():
                lane.thread.join(max(until - time.monotonic(), 0.01))
        self.lanes, self.abandoned = [], []
        return [lane.thread.name for lane in everyone if lane.thread.is_alive()]

    def _watch(self, now: float) -> float | None:
        """Time out what overran, and add threads when calls wait while every thread is held up."""
        next_at, busy, held = float("inf"), 0, 0
        for lane in tuple(self.lanes):
            attempt = lane.attempt
            if attempt is None:
                continue
            busy += 1
            held += now - attempt.started > 0.001
            if attempt.deadline <= now:
                self._abandon(attempt)
                attempt.timed_out(attempt.thread_note)
            else:
                next_at = min(next_at, attempt.deadline)
        depth = self.waiting.qsize()
        if depth and not self._closed:
            free = len(self.lanes) - held
            if free < depth and not self._drains(depth, now):
                self._grow(min(depth - free, self._limit - len(self.lanes)))
            return min(next_at, now + (0.002 if len(self.lanes) < self._limit else TICK_S))
        return next_at if busy and next_at < float("inf") else None

    def _drains(self, depth: int, now: float) -> bool:
        """Whether the threads there are would soon clear the queue, at the rate since the last look."""
        (finished, at), self._seen = self._seen, (self.finished, now)
        stale = now - at > DRAIN_S
        return stale or (self.finished - finished) * DRAIN_S >= depth * (now - at)

    def _abandon(self, attempt: Attempt) -> None:
        with self._lock:
            for lane in self.lanes:
                if lane.abandon(attempt):
                    self.lanes.remove(lane)
                    self.abandoned = [*(one for one in self.abandoned if one.thread.is_alive()), lane]
                    return

    def _grow(self, count: int) -> None:
        with self._lock:
            for _ in range(0 if self._closed else count):
                self._started += 1
                self.lanes.append(Lane(self, self._started))
