"""Processes for rewards that must be stoppable: a hung, killed or leaking worker is replaced, the others go on."""

from __future__ import annotations

import os
import pickle
import queue
import sys
import threading
import time

from plaudit.errors import PluginError
from plaudit.scoring.clock import Clock
from plaudit.scoring.executors.attempt import Attempt
from plaudit.scoring.executors.channel import ChannelClosed, ChannelTimeout
from plaudit.scoring.executors.template import Template, Worker
from plaudit.scoring.executors.worker import Job
from plaudit.scoring.outcome import Failure, Outcome, described
from plaudit.scoring.policy import Policy
from plaudit.scoring.spec import RewardSpec

SLOW_S = 0.1
LEAK_BYTES = 256 * 2**20
LOOK_S = 0.02
CLOSE_S = 5.0
MOST = 16


def default_processes() -> int:
    """Workers for one reward: the cores that this process may use, at least 2."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return max(cores, 2)


class Lane:
    """A thread that drives one worker process."""

    def __init__(self, pool: ProcessPool, number: int) -> None:
        self.attempt: Attempt | None = None
        self._pool = pool
        self._worker: Worker | None = None
        self.thread = threading.Thread(target=self._main, name=f"plaudit-{pool.name}-{number}", daemon=True)
        self.thread.start()

    def _main(self) -> None:
        self._warm()
        while self._next():
            pass
        self._retire(wait_s=CLOSE_S)

    def _next(self) -> bool:
        """Run the next attempt; nothing of it is kept while waiting for another. False at the end."""
        attempt = self._pool.waiting.get()
        if attempt is None:
            return False
        if not attempt.cancelled and not attempt.settled:
            self.attempt = attempt
            outcome = self._run(attempt)
            self.attempt = None
            attempt.settle(outcome)
        return True

    def _warm(self) -> None:
        """Have a worker before the first call needs it; what goes wrong here is told by that call."""
        try:
            self._worker = self._pool.template.fork()
        except (PluginError, ChannelClosed, ChannelTimeout):
            self._worker = None

    def _run(self, attempt: Attempt) -> Outcome:
        try:
            data = pickle.dumps(attempt.request())
        except BaseException as error:
            return Outcome(failure=Failure("unpicklable", f"its input cannot be sent to a worker: {described(error)}"))
        try:
            self._worker = self._worker or self._pool.template.fork()
        except PluginError as error:
            return Outcome(failure=Failure("load", str(error), error=error))
        except (ChannelClosed, ChannelTimeout) as error:
            return Outcome(failure=Failure("killed", f"no worker could be started: {error}"))
        return self._call(self._worker, attempt, data)

    def _call(self, worker: Worker, attempt: Attempt, data: bytes) -> Outcome:
        attempt.begin()
        try:
            outcome = worker.call(data, deadline=attempt.deadline, given_up=lambda: attempt.cancelled)
        except ChannelTimeout:
            self._retire()
            limit = attempt.timeout_s or 0.0
            return Outcome(failure=Failure("timeout", f"no answer within timeout_s = {limit:g}; its worker was killed"))
        except (ChannelClosed, pickle.UnpicklingError, EOFError) as error:
            message = f"its worker process died ({error}): killed, out of memory, or crashed{worker.last_words()}"
            self._retire()
            return Outcome(failure=Failure("killed", message))
        if worker.imported:
            self._pool.template.learn(worker.imported)
        grown = worker.resident_bytes - worker.first_bytes
        if grown > LEAK_BYTES or (outcome.failure is not None and outcome.failure.kind == "memory"):
            self._retire()
        return outcome

    def _retire(self, *, wait_s: float = 0.0) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill(wait_s=wait_s)


class ProcessPool:
    """The workers of one reward. Calls that take long hold nobody up: they do not count against `processes`."""

    def __init__(self, clock: Clock, spec: RewardSpec, policy: Policy, *, processes: int | None = None) -> None:
        component = spec.reward.component
        assert component.reference is not None
        self.name = spec.name
        self.waiting: queue.SimpleQueue[Attempt | None] = queue.SimpleQueue()
        self.template = Template(
            Job(
                component.reference,
                dict(component.options),
                component.name,
                spec.reward.reference_column,
                policy.memory_mb,
                [entry or os.getcwd() for entry in sys.path],
            )
        )
        self._clock = clock
        self._quick = min(processes or default_processes(), policy.max_concurrency)
        self._most = max(self._quick, min(MOST, policy.max_concurrency))
        self._lanes: list[Lane] = []
        self._closed = False
        self._lock = threading.Lock()
        clock.watch(self._watch)
        self._grow(1)

    def submit(self, attempt: Attempt) -> None:
        """Queue an attempt for the next free worker."""
        self.waiting.put(attempt)
        self._clock.poke()

    def cancel(self, attempt: Attempt) -> None:
        """Do not start it; if it is running, its worker is killed."""
        attempt.cancelled = True

    def close(self) -> list[str]:
        """Kill all workers and the template. Nothing is left."""
        with self._lock:
            self._closed = True
        while not self.waiting.empty():
            self.waiting.get_nowait()
        for lane in self._lanes:
            if lane.attempt is not None:
                self.cancel(lane.attempt)
            self.waiting.put(None)
        self.template.close()
        until = time.monotonic() + CLOSE_S
        for lane in self._lanes:
            if lane.thread is not threading.current_thread():
                lane.thread.join(max(until - time.monotonic(), 0.01))
        return [lane.thread.name for lane in self._lanes if lane.thread.is_alive()]

    def _watch(self, now: float) -> float | None:
        """Add a worker where calls wait: up to `processes` quick ones, and beyond that beside those that take long."""
        depth = self.waiting.qsize()
        if not depth or self._closed:
            return None
        attempts = [lane.attempt for lane in self._lanes]
        slow = sum(a is not None and 0 < a.started < now - SLOW_S for a in attempts)
        room = min(self._quick + slow, self._most) - len(self._lanes)
        self._grow(min(depth, room))
        return now + LOOK_S

    def _grow(self, count: int) -> None:
        with self._lock:
            for _ in range(0 if self._closed else count):
                self._lanes.append(Lane(self, len(self._lanes) + 1))
