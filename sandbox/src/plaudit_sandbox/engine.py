"""One event loop a process, in a thread of its own, on which all sandboxes live.

So one pool serves every caller, whatever loop or thread it is on, and outlives each of their loops.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_EXIT_S = 30.0


class Engine:
    """Runs coroutines for callers on other loops. at_exit: awaited once when the process ends."""

    def __init__(self, at_exit: Callable[[], Awaitable[None]]) -> None:
        self._at_exit = at_exit
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        os.register_at_fork(after_in_child=self._forget)

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` on the engine's loop. Cancelling this cancels it and waits until it is over."""
        engine_loop, caller = self._started(), asyncio.get_running_loop()
        if engine_loop is caller:
            return await work
        done: asyncio.Future[T] = caller.create_future()
        tasks: list[asyncio.Task[T]] = []

        def transfer(task: asyncio.Task[T]) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits
                caller.call_soon_threadsafe(_copy, task, done)

        def start() -> None:
            tasks.append(engine_loop.create_task(work))
            tasks[0].add_done_callback(transfer)

        engine_loop.call_soon_threadsafe(start)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            engine_loop.call_soon_threadsafe(lambda: tasks[0].cancel())
            await asyncio.wait([done])
            if not done.cancelled():
                done.exception()
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="plaudit-sandbox", daemon=True).start()
                atexit.register(self._stop, self._loop)
            return self._loop

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            ended = asyncio.run_coroutine_threadsafe(_await(self._at_exit()), loop)
            with contextlib.suppress(TimeoutError):  # what is left ends with this process, which its agents watch
                ended.result(timeout=_EXIT_S)
            loop.call_soon_threadsafe(loop.stop)

    def _forget(self) -> None:
        """In a forked child the thread is gone: the next call starts another."""
        self._lock = threading.Lock()
        self._loop = None


async def _await(work: Awaitable[None]) -> None:
    await work


def _copy(task: asyncio.Task[T], done: asyncio.Future[T]) -> None:
    if done.done():
        return
    if task.cancelled():
        done.cancel()
    elif (error := task.exception()) is not None:
        done.set_exception(error)
    else:
        done.set_result(task.result())
