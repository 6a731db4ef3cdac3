"""Who may start now: concurrency limits, one a reward and one for all, and request rates."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from plaudit.scoring.clock import Clock

Start = Callable[[], None]


@dataclass(slots=True)
class Queue:
    """The starts of one reward that wait, and how many are under way."""

    limit: int
    interval_s: float = 0.0
    under_way: int = 0
    next_at: float = 0.0
    timer_set: bool = False
    waiting: deque[Start] = field(default_factory=deque)


class Admission:
    """Starts calls in order, first come first served within a reward, taking turns between rewards. Thread-safe."""

    def __init__(self, clock: Clock, *, limit: int) -> None:
        self._clock = clock
        self._limit = limit
        self._under_way = 0
        self._waiting = 0
        self._queues: list[Queue] = []
        self._turn = 0
        self._lock = threading.Lock()
        self._inside = threading.local()

    def queue(self, *, limit: int, requests_per_s: float | None = None) -> Queue:
        """A queue for one reward: at most `limit` calls at once, at most `requests_per_s` starts a second."""
        queue = Queue(limit, 0.0 if requests_per_s is None else 1.0 / requests_per_s)
        self._queues.append(queue)
        return queue

    def request(self, queue: Queue, start: Start) -> None:
        """Run `start` now, on this thread, or as soon as the limits let it."""
        with self._lock:
            if queue.waiting or not self._take(queue):
                queue.waiting.append(start)
                self._waiting += 1
                return
        start()

    def release(self, queue: Queue) -> None:
        """A started call has ended; starts what may now run, on this thread."""
        with self._lock:
            queue.under_way -= 1
            self._under_way -= 1
            if not self._waiting:
                return
        self._pump()

    def _pump(self) -> None:
        """Start what may now run, on this thread; a release from inside such a start only counts."""
        if getattr(self._inside, "pump", False):
            return
        self._inside.pump = True
        try:
            while (start := self._next()) is not None:
                start()
        finally:
            self._inside.pump = False

    def _next(self) -> Start | None:
        """The next start that the limits let through, taking turns between the queues."""
        with self._lock:
            for _ in range(len(self._queues) if self._waiting else 0):
                self._turn = (self._turn + 1) % len(self._queues)
                queue = self._queues[self._turn]
                if queue.waiting and self._take(queue):
                    self._waiting -= 1
                    return queue.waiting.popleft()
            return None

    def _timer(self, queue: Queue) -> None:
        queue.timer_set = False
        self._pump()

    def _take(self, queue: Queue) -> bool:
        if self._under_way >= self._limit or queue.under_way >= queue.limit:
            return False
        if queue.interval_s and not self._in_rate(queue):
            return False
        queue.under_way += 1
        self._under_way += 1
        return True

    def _in_rate(self, queue: Queue) -> bool:
        now = time.monotonic()
        if now < queue.next_at:
            if not queue.timer_set:
                queue.timer_set = True
                self._clock.call_later(queue.next_at - now, lambda: self._timer(queue))
            return False
        # A start that is a little late does not move the next ones, so that the rate is kept.
        on_time = now - queue.next_at < queue.interval_s
        queue.next_at = (queue.next_at if on_time else now) + queue.interval_s
        return True
