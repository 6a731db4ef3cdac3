"""One process tree of a program, seen from the agent: starting it, killing it, reading how it ended."""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import socket
from typing import NamedTuple

from .confine import Confinement
from .pipes import Capture, Peer
from .program import Streams, become_program
from .report import Report
from .request import Settings, stdin_of


class Exit(NamedTuple):
    """How the program's first process ended: its wait status, CPU seconds with its children's, largest resident set."""

    status: int
    cpu_s: float
    max_rss_kb: int


class Job:
    """A running program, or a session's interpreter."""

    def __init__(
        self,
        confinement: Confinement,
        settings: Settings,
        body: mmap.mmap | None,
        *,
        session: bool,
        stdout: Capture,
        stderr: Capture,
    ) -> None:
        self.stdout, self.stderr = stdout, stderr
        self.report = Report()
        ours, theirs = socket.socketpair() if session or settings.calls else (None, None)
        stdin = _stdin(body)
        out, err = stdout.open(), stderr.open()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                streams = Streams(stdin, out, err, theirs.fileno() if theirs else None)
                become_program(confinement, settings, body, streams, self.report, session=session)
        finally:
            for descriptor in (stdin, out, err):
                os.close(descriptor)
            if theirs is not None:
                theirs.close()
        self.peer = Peer(ours) if ours is not None else None
        self.pidfd = _pidfd(self.pid)
        self._exit: Exit | None = None

    def kill(self) -> None:
        """Kill its first process."""
        self._signal(signal.SIGKILL)

    def interrupt(self) -> None:
        """What Ctrl-C would do."""
        self._signal(signal.SIGINT)

    def ended(self) -> bool:
        """Whether its first process has ended, which is not reaped yet."""
        if self._exit is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def reap(self) -> Exit:
        """Wait for its end."""
        if self._exit is None:
            _, status, usage = os.wait4(self.pid, 0)
            self._exit = Exit(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
        return self._exit

    def close(self) -> None:
        """Kill it if it still runs, reap it, and close every descriptor."""
        self.kill()
        self.reap()
        self.stdout.close()
        self.stderr.close()
        if self.peer is not None:
            self.peer.close()
        if self.pidfd is not None:
            os.close(self.pidfd)
            self.pidfd = None
        self.report.close()

    def _signal(self, number: int) -> None:
        if self._exit is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _stdin(body: mmap.mmap | None) -> int:
    """stdin as a file of memory: the agent need not feed it, and the program cannot make the agent wait."""
    descriptor = os.memfd_create("stdin")
    if body is not None:
        data = stdin_of(body)
        while data:
            data = data[os.write(descriptor, data) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # gVisor has none
        return None
