"""A pool of killable processes for what only symbolic mathematics can tell.

A worker is started when the first pair needs one, answers one request at a time, and is killed and replaced when it
does not answer in time. It limits its own memory and dies by itself when its parent is gone or a request has run too
long, so none is left behind. Safe with threads (each request has a worker to itself) and after fork (a child starts
its own). No signals are used on this side.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
from typing import Any

from plaudit_math.nodes import Node

MAX_WORKERS = 2
_HEADER = struct.Struct(">I")
_START = "import sys; sys.path[:] = {path!r}; from plaudit_math.worker_main import main; main()"


class Worker:
    """One process and its pipes."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _START.format(path=[entry for entry in sys.path if isinstance(entry, str)])]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
            start_new_session=True,
        )  # fmt: skip

    def ask(self, request: Any, timeout_s: float) -> Any:
        """The worker's answer. Raises TimeoutError, or EOFError when it died (out of memory)."""
        deadline = time.monotonic() + timeout_s
        data = pickle.dumps((request, timeout_s))
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(_HEADER.pack(len(data)) + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise EOFError("the worker is gone") from None
        (size,) = _HEADER.unpack(self._read(_HEADER.size, deadline))
        return pickle.loads(self._read(size, deadline))

    def _read(self, size: int, deadline: float) -> bytes:
        assert self.process.stdout is not None
        handle, received = self.process.stdout.fileno(), b""
        while len(received) < size:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                raise TimeoutError
            chunk = os.read(handle, size - len(received))
            if not chunk:
                raise EOFError("the worker is gone")
            received += chunk
        return received

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class Pool:
    """At most two workers; a request waits for a free one no longer than its own time."""

    def __init__(self) -> None:
        self.free: list[Worker] = []
        self.slots = threading.Semaphore(MAX_WORKERS)
        self.lock = threading.Lock()
        self.owner = os.getpid()

    def ask(self, request: Any, timeout_s: float) -> Any | None:
        """None when the time is over or the worker died."""
        began = time.monotonic()
        if not self.slots.acquire(timeout=timeout_s):
            return None
        try:
            with self.lock:
                worker = self.free.pop() if self.free else None
            worker = worker or Worker()
            try:
                answer = worker.ask(request, max(0.05, timeout_s - (time.monotonic() - began)))
            except BaseException as error:
                worker.kill()
                if isinstance(error, (TimeoutError, EOFError)):
                    return None
                raise
            with self.lock:
                self.free.append(worker)
            return answer
        finally:
            self.slots.release()

    def stop(self) -> None:
        """Kills every idle worker of this process."""
        with self.lock:
            workers, self.free = self.free, []
        for worker in workers:
            worker.kill()


_pool = Pool()


def _after_fork() -> None:
    """A forked child owns no workers: it closes its copies of the pipes and starts anew."""
    global _pool
    for worker in _pool.free:
        worker.close()
    _pool = Pool()


def _at_exit() -> None:
    if _pool.owner == os.getpid():
        _pool.stop()


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def symbolically_same(pairs: list[tuple[Node, Node]], timeout_s: float) -> bool:
    """Is one of the pairs equal by integration, limits and summation? What is not settled in time is not equal."""
    return bool(_pool.ask(("same", pairs), timeout_s))


def library_same(left: str, right: str, timeout_s: float) -> bool:
    """Equal for math-verify, in both orders."""
    return bool(_pool.ask(("library", [(left, right)]), timeout_s))


def stop_workers() -> None:
    """Ends the idle workers; the next request starts one."""
    _pool.stop()
