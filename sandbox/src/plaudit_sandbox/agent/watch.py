"""Watching a program until it ends or must be ended."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass

from .confine import Confinement
from .frames import Channel, Closed, Head
from .job import Exit, Job
from .report import COMPILING, RUNNING
from .request import Settings

_SETUP_TIMEOUT_S = 20.0
_GRACE_S = 1.0
_NO_PIDFD_TICK_S = 0.01
_WATCH_TICK_S = 0.1
_NO_USAGE = Exit(0, 0.0, 0)


@dataclass
class Ending:
    """Why watching stopped. reason "": the program ended by itself, or a cell answered (exit_code, built, usage)."""

    reason: str = ""
    detail: str = ""
    answered: bool = False
    exit_code: int = 0
    built: bool = True
    usage: Exit = _NO_USAGE


class Watch:
    """One poll loop over a job's pipes, its control channel, its end, the clock and the agent's client."""

    def __init__(self, job: Job, channel: Channel, confinement: Confinement, settings: Settings) -> None:
        self._job, self._channel = job, channel
        self._confinement, self._settings = confinement, settings
        self._ending = Ending()
        self._poll = select.poll()
        self._interrupted_at: float | None = None

    def until_end(self, *, cell: bool = False) -> Ending:
        """Watch a run, or one cell of a session, which is interrupted before it is killed."""
        job = self._job
        began = time.monotonic()
        sources = [job.stdout.reading, job.stderr.reading, self._channel.incoming]
        sources += [job.pidfd] if job.pidfd is not None else []
        for source in sources:
            self._poll.register(source, select.POLLIN)
        while not self._done():
            if job.peer is not None:
                events = select.POLLIN | (select.POLLOUT if job.peer.wants_to_write else 0)
                self._poll.register(job.peer.sock, events)
            deadline = self._deadline(began, cell)
            self._handle(dict(self._poll.poll(self._wait_ms(deadline))))
            now = time.monotonic()
            if now >= self._deadline(began, cell) and not self._done():
                self._out_of_time(cell, now)
            self._look_around(now)
        self._drain()
        return self._ending

    def _done(self) -> bool:
        return bool(self._ending.reason) or self._ending.answered or self._job.ended()

    def _deadline(self, began: float, cell: bool) -> float:
        if self._interrupted_at is not None:
            return self._interrupted_at + _GRACE_S
        if cell:
            return began + self._settings.timeout_s
        stage = self._job.report.stage
        if stage == RUNNING:
            return self._job.report.started + self._settings.timeout_s
        if stage == COMPILING:
            return self._job.report.started + self._settings.compile_timeout_s
        return began + _SETUP_TIMEOUT_S

    def _wait_ms(self, deadline: float) -> float:
        # The stage may change while this waits, so never beyond the time that a run may take.
        wait_s = min(deadline - time.monotonic(), self._settings.timeout_s)
        if self._job.pidfd is None:
            wait_s = min(wait_s, _NO_PIDFD_TICK_S)
        if self._confinement.watches:
            wait_s = min(wait_s, _WATCH_TICK_S)
        return max(0.0, wait_s * 1000) + 0.5

    def _handle(self, ready: dict[int, int]) -> None:
        job = self._job
        for capture in (job.stdout, job.stderr):
            if capture.reading in ready and not capture.fill():
                self._poll.unregister(capture.reading)
            if capture.overflowed:
                self._end("output", f"wrote more than {self._settings.output >> 10} KiB")
        if job.peer is not None and job.peer.sock.fileno() in ready:
            self._hear_program(ready[job.peer.sock.fileno()])
        if self._channel.incoming in ready:
            self._hear_client()

    def _hear_program(self, event: int) -> None:
        peer = self._job.peer
        assert peer is not None
        try:
            if event & select.POLLOUT:
                peer.flush()
            if event & ~select.POLLOUT:
                peer.fill()
                while (frame := peer.take()) is not None:
                    head, body = frame
                    if head["op"] == "call":
                        self._channel.send({"op": "call"}, [body])
                    elif head["op"] == "done":
                        self._answered(head)
        except (ValueError, OSError) as error:
            if isinstance(error, OSError):
                # It closed its end: only its exit says how it went on.
                self._poll.unregister(peer.sock)
                peer.close()
                self._job.peer = None
            else:
                self._end("killed", str(error))

    def _answered(self, head: Head) -> None:
        code, built, cpu_s, max_rss_kb = (head.get(name) for name in ("exit_code", "built", "cpu_s", "max_rss_kb"))
        self._ending.exit_code = code if isinstance(code, int) else 1
        self._ending.built = built is not False
        if isinstance(cpu_s, float) and isinstance(max_rss_kb, int):
            self._ending.usage = Exit(0, cpu_s, max_rss_kb)
        self._ending.answered = True

    def _hear_client(self) -> None:
        head, body = self._channel.receive()
        if head["op"] == "cancel":
            self._end("cancelled", "cancelled")
        elif head["op"] in ("reply", "refuse") and self._job.peer is not None:
            try:
                self._job.peer.send(head, body)
            except OSError:
                return
        elif head["op"] == "end":
            raise Closed

    def _out_of_time(self, cell: bool, now: float) -> None:
        if cell and self._interrupted_at is None:
            self._interrupted_at = now
            self._job.interrupt()
            return
        stage = self._job.report.stage
        if cell or stage == RUNNING:
            self._end("timeout", f"ran longer than {self._settings.timeout_s:g} s")
        elif stage == COMPILING:
            self._end("compile", f"compiled longer than {self._settings.compile_timeout_s:g} s")
        else:
            self._end("broken", f"took longer than {_SETUP_TIMEOUT_S:g} s to set up")

    def _look_around(self, now: float) -> None:
        if self._confinement.watches and not self._ending.reason:
            over = self._confinement.over_limits(self._settings, now)
            if over is not None:
                self._end(*over)

    def _end(self, reason: str, detail: str) -> None:
        if not self._ending.reason:
            self._ending.reason, self._ending.detail = reason, detail

    def _drain(self) -> None:
        for capture in (self._job.stdout, self._job.stderr):
            capture.fill()
        if self._interrupted_at is not None and not self._ending.reason:
            self._end("timeout", f"interrupted after {self._settings.timeout_s:g} s")
        if not self._ending.reason and (self._job.stdout.overflowed or self._job.stderr.overflowed):
            self._end("output", f"wrote more than {self._settings.output >> 10} KiB")
