"""One thread that watches: timers, deadlines of running calls, and whether a pool needs another lane."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

Watch = Callable[[float], float | None]
"""Called with the time (monotonic seconds); returns when it wants to be called again, None = after the next `poke`."""
SETTLE_S = 0.001
_log = logging.getLogger("plaudit.scoring")


class Clock:
    """Calls watches and timers from its own daemon thread. Started by the first `poke` or timer."""

    def __init__(self) -> None:
        self._watches: list[Watch] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._event = threading.Event()
        self._poked = False
        self._closed = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, watch: Watch) -> None:
        """Add a watch."""
        self._watches.append(watch)

    def poke(self) -> None:
        """Something started: look at it soon. Cheap, and called from the hot path."""
        if not self._poked:
            self._poked = True
            self._wake()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Run `callback` on the clock's thread, `delay_s` from now."""
        with self._lock:
            heapq.heappush(self._timers, (time.monotonic() + delay_s, next(self._order), callback))
        self._wake()

    def close(self) -> None:
        """Stop; timers that are not due yet never run."""
        self._closed = True
        self._event.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def _wake(self) -> None:
        if self._thread is None and not self._closed:
            with self._lock:
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="plaudit-clock", daemon=True)
                    self._thread.start()
        self._event.set()

    def _run(self) -> None:
        wanted: float | None = None
        while not self._closed:
            self._event.wait(None if wanted is None else max(wanted - time.monotonic(), 0.0))
            if self._closed:
                return
            if self._event.is_set():
                # What was submitted a moment ago may already be done: a short pause saves needless work.
                time.sleep(SETTLE_S)
            self._event.clear()
            self._poked = False
            wanted = self._round()

    def _round(self) -> float | None:
        times = [at for watch in tuple(self._watches) if (at := self._guarded(watch)) is not None]
        while True:
            with self._lock:
                if not self._timers:
                    break
                if self._timers[0][0] > time.monotonic():
                    times.append(self._timers[0][0])
                    break
                callback = heapq.heappop(self._timers)[2]
            self._guarded(lambda _: callback())  # noqa: B023
        return min(times, default=None)

    def _guarded(self, watch: Callable[[float], float | None]) -> float | None:
        try:
            return watch(time.monotonic())
        except Exception:
            _log.exception("the scoring clock caught an error of its own")
            return None
