"""The agent's loop: take a request, run it, answer."""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import signal
import sys
import time

from . import interpret, outcome
from .confine import Confinement, set_constant_limits
from .frames import Channel, Closed, Head
from .job import Job
from .pipes import Capture
from .request import Settings
from .watch import Ending, Watch

VERSION = 1


class Agent:
    """Serves one client, one run or session at a time, until the channel closes."""

    def __init__(self, channel: Channel, confinement: Confinement, tier: str) -> None:
        self._channel, self._confinement, self._tier = channel, confinement, tier
        self._stdout = self._stderr = Capture(1 << 20)

    def serve(self) -> None:
        """Answer requests. Returns when the client is gone."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._settle()
        python = ".".join(map(str, sys.version_info[:3]))
        self._channel.send({"op": "hello", "version": VERSION, "tier": self._tier, "python": python})
        try:
            while True:
                head, body = self._channel.receive()
                if head["op"] in ("run", "open"):
                    self._answer(head, body)
        except Closed:
            return

    def _settle(self) -> None:
        """Once, so that no run pays for it: nothing of the agent is importable."""
        for name in [name for name in sys.modules if name.startswith("plaudit_sandbox")]:
            del sys.modules[name]
        set_constant_limits()
        interpret.settle(self._confinement.home)
        # When memory runs out, the kernel is to take a program and not whoever asked for it.
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
        gc.collect()
        gc.freeze()

    def _answer(self, head: Head, body: mmap.mmap | None) -> None:
        try:
            settings = Settings.from_head(head)
            self._size_captures(settings)
            self._confinement.prepare(settings)
            try:
                if head["op"] == "run":
                    self._run(settings, body)
                else:
                    self._session(settings)
            finally:
                self._confinement.clean()
        except (OSError, ValueError) as error:
            self._channel.send({"op": "broken", "error": f"{type(error).__name__}: {error}"})
        finally:
            _close(body)

    def _size_captures(self, settings: Settings) -> None:
        if self._stdout is self._stderr or self._stdout.limit != settings.output:
            self._stdout, self._stderr = Capture(settings.output), Capture(settings.output)

    def _start(self, settings: Settings, body: mmap.mmap | None, *, session: bool) -> Job:
        return Job(self._confinement, settings, body, session=session, stdout=self._stdout, stderr=self._stderr)

    def _run(self, settings: Settings, body: mmap.mmap | None) -> None:
        kills = self._confinement.out_of_memory_kills()
        job = self._start(settings, body, session=False)
        try:
            ending = Watch(job, self._channel, self._confinement, settings).until_end()
            self._finish_run(job, settings, ending, kills)
        finally:
            job.close()

    def _finish_run(self, job: Job, settings: Settings, ending: Ending, kills: int) -> None:
        if ending.reason:
            job.kill()
        ended = job.reap()
        kills = self._confinement.out_of_memory_kills() - kills
        head = outcome.of_run(job, settings, ending, ended, oom_kills=kills)
        self._send_result(job, head, settings)

    def _send_result(self, job: Job, head: Head, settings: Settings) -> None:
        if head["op"] != "result":
            self._channel.send(head)
            return
        directory = self._confinement.open_scratch() if settings.collect else None
        try:
            names, lengths, parts = outcome.attachments(job, directory, settings)
        finally:
            if directory is not None:
                os.close(directory)
        self._channel.send({**head, "names": names, "lengths": lengths}, parts)

    def _session(self, settings: Settings) -> None:
        job = self._start(settings, None, session=True)
        restarted = False
        try:
            self._channel.send({"op": "opened"})
            while True:
                head, body = self._channel.receive()
                if head["op"] == "end":
                    return
                if head["op"] != "cell" or body is None:
                    continue
                if job.ended() or job.peer is None:
                    job.close()
                    job, restarted = self._start(settings, None, session=True), True
                self._cell(job, Settings.from_head(head), body, restarted=restarted)
                restarted = False
        finally:
            job.close()

    def _cell(self, job: Job, settings: Settings, body: mmap.mmap, *, restarted: bool) -> None:
        kills = self._confinement.out_of_memory_kills()
        began = time.monotonic()
        for capture in (job.stdout, job.stderr):
            capture.restart()
        assert job.peer is not None
        job.peer.send({"op": "cell"}, body)
        ending = Watch(job, self._channel, self._confinement, settings).until_end(cell=True)
        wall_s = time.monotonic() - began
        kills = self._confinement.out_of_memory_kills() - kills
        if ending.answered and not (job.peer is not None and job.peer.wants_to_write):
            head = outcome.of_cell(job, ending, wall_s=wall_s, oom=kills > 0)
        else:
            job.kill()
            head = outcome.of_run(job, settings, ending, job.reap(), oom_kills=kills)
            if head["op"] == "result":
                head["wall_s"] = wall_s
                head["detail"] = _join(head["detail"], "the interpreter is restarted, its names are lost")
        if restarted:
            head["detail"] = _join(head.get("detail", ""), "in a restarted interpreter")
        self._send_result(job, head, settings)


def _join(*details: str) -> str:
    return "; ".join(filter(None, details))


def _close(body: mmap.mmap | None) -> None:
    if body is not None:
        body.close()
