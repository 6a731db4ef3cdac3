"""The parent's side of the worker program: the template process that forks workers, and one worker."""

from __future__ import annotations

import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from plaudit.errors import PluginError
from plaudit.scoring.executors.channel import Channel, ChannelClosed, ChannelTimeout, send_blocking
from plaudit.scoring.executors.worker import FORK, IMPORT, Job
from plaudit.scoring.outcome import Outcome

LOAD_TIMEOUT_S = 300.0
FORK_TIMEOUT_S = 30.0
_TAIL = 400
_OUTPUT_LIMIT = 2**20
# Libraries that start threads or devices when imported: a process that holds them must not fork.
_NEVER_LEARNT = frozenset({"torch", "tensorflow", "jax", "vllm", "__main__"})


class Worker:
    """One worker process, in which a reward runs; killed with everything that it started."""

    def __init__(self, channel: Channel, output: IO[bytes], given_up: Callable[[], bool]) -> None:
        self._channel = channel
        self._output = output
        data = channel.receive(deadline=time.monotonic() + FORK_TIMEOUT_S, given_up=given_up)
        self.pid, self.first_bytes = pickle.loads(data)
        channel.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else None
        self.resident_bytes: int = self.first_bytes
        self.imported: list[str] = []

    def call(self, request: bytes, *, deadline: float, given_up: Callable[[], bool]) -> Outcome:
        """Run one request. Raises ChannelTimeout and ChannelClosed, after which the worker must be killed."""
        outcome, self.resident_bytes, self.imported = pickle.loads(
            self._channel.exchange(request, deadline=deadline, given_up=given_up)
        )
        if os.fstat(self._output.fileno()).st_size > _OUTPUT_LIMIT:
            os.ftruncate(self._output.fileno(), 0)
        return outcome  # type: ignore[no-any-return]

    def last_words(self) -> str:
        """The end of what it printed, for the message about its death."""
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), _TAIL, max(size - _TAIL, 0)).decode("utf-8", "replace").strip()
        return f"; it last printed: {text}" if text else ""

    def kill(self, *, wait_s: float = 0.0) -> None:
        """End the process and its group, and close what belongs to it; wait until it is gone, at most so long."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(ProcessLookupError, PermissionError):
            self._kill_leader()
        if self._channel.pidfd is not None:
            poll = select.poll()
            poll.register(self._channel.pidfd, select.POLLIN)
            poll.poll(wait_s * 1000)
            os.close(self._channel.pidfd)
        self._channel.close()
        self._output.close()

    def _kill_leader(self) -> None:
        if self._channel.pidfd is not None:
            signal.pidfd_send_signal(self._channel.pidfd, signal.SIGKILL)
        else:
            os.kill(self.pid, signal.SIGKILL)


class Template:
    """The process that has loaded the reward. `fork` starts it when needed, and again if it was killed."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._output: IO[bytes] | None = None
        self._learnt: set[str] = set()
        self._lock = threading.Lock()
        self._closed = False

    def fork(self) -> Worker:
        """A fresh worker. Raises PluginError when the reward cannot be loaded, ChannelClosed or ChannelTimeout else."""
        with self._lock:
            if self._closed:
                raise ChannelClosed("the scorer is closed")
            if self._process is None or self._process.poll() is not None:
                self._start()
            ours, theirs = socket.socketpair()
            output = tempfile.TemporaryFile("a+b")  # noqa: SIM115  it lives as long as the worker
            try:
                assert self._control is not None
                socket.send_fds(self._control, [FORK], [theirs.fileno(), output.fileno()])
            except OSError as error:
                ours.close()
                output.close()
                raise ChannelClosed(f"the worker template is gone: {error}") from error
            finally:
                theirs.close()
        channel = Channel(ours)
        try:
            return Worker(channel, output, lambda: self._closed)
        except (ChannelClosed, ChannelTimeout):
            channel.close()
            output.close()
            raise

    def learn(self, modules: list[str]) -> None:
        """Have the template import what a worker needed, before its next fork."""
        wanted = [name for name in modules if name.partition(".")[0] not in _NEVER_LEARNT and name not in self._learnt]
        with self._lock:
            if wanted and self._control is not None and not self._closed:
                self._learnt.update(wanted)
                with suppress(OSError):
                    self._control.sendall(IMPORT)
                    send_blocking(self._control, " ".join(wanted).encode())

    def close(self) -> None:
        """End the template; workers that were not killed die with it."""
        self._closed = True
        process = self._process
        if process is not None:
            process.kill()
        with self._lock:
            self._drop()

    def _start(self) -> None:
        self._drop()
        self._learnt.clear()
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile("a+b")  # noqa: SIM115  it lives as long as the template
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "CUDA_VISIBLE_DEVICES": ""}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "plaudit.scoring.executors.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env=environment,
            start_new_session=True,
        )
        theirs.close()
        channel = Channel(ours)
        try:
            answer = channel.exchange(
                pickle.dumps(self._job), deadline=time.monotonic() + LOAD_TIMEOUT_S, given_up=lambda: self._closed
            )
        except (ChannelClosed, ChannelTimeout) as error:
            self._drop()
            raise PluginError(f"the worker process of reward '{self._job.name}' did not start: {error}") from error
        if answer != b"ready":
            self._drop()
            raise PluginError(f"a worker cannot load '{self._job.reference}': {answer.decode('utf-8', 'replace')}")
        ours.setblocking(True)
        self._control = ours

    def _drop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for owned in (self._control, self._output):
            if owned is not None:
                owned.close()
        self._process, self._control, self._output = None, None, None
