"""The worker program: loads one reward, then forks a worker for each socket it is handed. Imports no torch by itself.

Run as `python -m plaudit.scoring.executors.worker FD`. The template process only loads and forks, so replacing a killed
worker takes milliseconds. What a worker imported while it judged, the template imports too, so that the next one need
not. A worker answers one request after another and never outlives the parent.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import resource
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from plaudit.plugins.component import Reward
from plaudit.scoring.executors.channel import receive_blocking, send_blocking
from plaudit.scoring.outcome import Failure, Outcome, described, perform

_FILE_LIMIT = 2**30
_PR_SET_PDEATHSIG = 1
FORK, IMPORT = b"f", b"i"


@dataclass(frozen=True, slots=True)
class Job:
    """What to load, and the memory that each worker may use."""

    reference: str
    options: dict[str, Any]
    name: str
    reference_column: str | None
    memory_mb: int
    path: list[str]


def main() -> None:
    """Load, report `b"ready"` or the error, then fork on request until the parent closes the socket."""
    control = socket.socket(fileno=int(sys.argv[1]))
    data = receive_blocking(control)
    if data is None:
        return
    job: Job = pickle.loads(data)
    sys.path[:] = [*job.path, *(entry for entry in sys.path if entry not in job.path)]
    try:
        from plaudit.plugins.loading import load_reward

        reward = load_reward(job.reference, options=job.options, name=job.name, reference_column=job.reference_column)
    except BaseException as error:
        send_blocking(control, described(error).encode("utf-8", "replace"))
        return
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended workers are reaped by the kernel
    gc.collect()
    gc.freeze()
    send_blocking(control, b"ready")
    while True:
        message, handles, _, _ = socket.recv_fds(control, 1, 2)
        if not message:
            return
        if message == IMPORT:
            _import(receive_blocking(control) or b"")
            continue
        channel, output = handles
        if os.fork() == 0:
            control.close()
            _become_worker(output, job.memory_mb)
            _serve(socket.socket(fileno=channel), reward)
            os._exit(0)
        os.close(channel)
        os.close(output)


def _import(names: bytes) -> None:
    """Import modules by name; one that fails here will fail, and be reported, where it is used."""
    for name in names.decode().split():
        with suppress(BaseException):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _become_worker(output: int, memory_mb: int) -> None:
    """Own session, own output file, bounded memory; killed with the template, which ends with the trainer."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    limit = memory_mb * 2**20
    for kind, value in ((resource.RLIMIT_DATA, limit), (resource.RLIMIT_FSIZE, _FILE_LIMIT), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (ceiling, ceiling))


def _serve(channel: socket.socket, reward: Reward) -> None:
    pid, modules = os.getpid(), set(sys.modules)
    send_blocking(channel, pickle.dumps((pid, resident_bytes())))
    while (data := receive_blocking(channel)) is not None:
        try:
            request = pickle.loads(data)
        except BaseException as error:
            outcome = Outcome(failure=Failure("unpicklable", f"the worker cannot read its input: {described(error)}"))
        else:
            outcome = perform(reward, request, reward.component.declaration.retry_on)
        if os.getpid() != pid:
            os._exit(0)  # The reward forked, and this is the child: the parent answers.
        _flush()
        imported = [name for name in sys.modules if name not in modules] if len(sys.modules) > len(modules) else []
        modules.update(imported)
        send_blocking(channel, _answer(outcome, imported))


def _answer(outcome: Outcome, imported: list[str]) -> bytes:
    if outcome.failure is not None:
        outcome.failure.error = None
    try:
        return pickle.dumps((outcome, resident_bytes(), imported))
    except BaseException as error:
        failure = Failure("unpicklable", f"its result cannot leave the worker process: {described(error)}")
        return pickle.dumps((Outcome(failure=failure), resident_bytes(), imported))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            continue


def resident_bytes() -> int:
    """The memory that this process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


if __name__ == "__main__":
    main()
