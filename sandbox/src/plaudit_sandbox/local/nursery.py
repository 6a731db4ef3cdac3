"""The nursery: a small process without threads from which slots are forked, and which ends what they leave.

It is started afresh and never sees the trainer's memory, environment or descriptors. It ends, and with it all slots,
when its control socket closes, however the trainer ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import shutil
import signal
import socket
import sys
from dataclasses import dataclass
from typing import Any, NoReturn

from plaudit_sandbox.agent import landlock, processes, seccomp, syscalls
from plaudit_sandbox.agent.confine import Confinement, Options
from plaudit_sandbox.agent.frames import Channel, Closed
from plaudit_sandbox.agent.serve import Agent
from plaudit_sandbox.local import cgroup, mounts, namespaces

MESSAGE_BYTES = 65536
# What programs import most, where that costs a fork nothing (random and threading have hooks that each fork runs).
_COMMON = "bisect collections copy dataclasses functools heapq itertools math operator re string typing".split()


@dataclass(frozen=True)
class Nursling:
    """A slot as the nursery knows it. scratch: its working directory, where that is not in memory."""

    pid: int
    group: cgroup.SlotGroup | None
    scratch: str | None


class Nursery:
    """Serves one control socket (SOCK_SEQPACKET, a JSON object a message)."""

    def __init__(self, control: socket.socket, tier: str, visible: list[str]) -> None:
        self._control, self._tier, self._visible = control, tier, visible
        self._slots: dict[int, Nursling] = {}
        self._root = _make_folder("root")
        self._hierarchy = cgroup.find() if tier == "namespaces" else None
        if self._hierarchy is not None:
            cgroup.sweep(self._hierarchy)

    def serve(self) -> None:
        """Start and end slots as asked, until the socket closes."""
        self._say({"op": "ready", "cgroup": self._hierarchy is not None})
        try:
            while True:
                data, descriptors, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 1)
                if not data:
                    return
                self._obey(json.loads(data), descriptors)
        finally:
            for number in list(self._slots):
                self._end(number)
            os.rmdir(self._root)

    def _obey(self, message: dict[str, Any], descriptors: list[int]) -> None:
        number = message["id"]
        try:
            if message["op"] == "start":
                self._slots[number] = self._start(number, descriptors[0])
                self._say({"id": number})
            else:
                self._say({"id": number, "kills": self._end(number)})
        except OSError as error:
            self._say({"id": number, "error": str(error)})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _start(self, number: int, channel: int) -> Nursling:
        group = None
        if self._hierarchy is not None:
            group = cgroup.SlotGroup(self._hierarchy, f"{cgroup.PREFIX}{os.getpid()}-{number}")
        scratch = None if self._tier == "namespaces" else _make_folder(f"run-{number}")
        pid = os.fork()
        if pid == 0:
            self._become_slot(channel, group, scratch)
        return Nursling(pid, group, scratch)

    def _become_slot(self, channel: int, group: cgroup.SlotGroup | None, scratch: str | None) -> NoReturn:
        frames = Channel(channel, channel)
        try:
            self._control.close()
            syscalls.die_with_parent()
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
            if group is not None:
                group.join()
            if scratch is None:
                kept = mounts.beneath_tmp(self._visible)
                namespaces.enter(self._root, self._visible)
                confinement: Confinement = namespaces.NamespaceConfinement(group, kept)
            else:
                confinement = Confinement(
                    _plain_options(scratch, self._tier, [*self._visible, *mounts.settings_paths()])
                )
                syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
            Agent(frames, confinement, self._tier).serve()
        except Closed:
            pass
        except BaseException as error:
            with contextlib.suppress(BaseException):
                frames.send({"op": "broken", "error": f"{type(error).__name__}: {error}"})
        os._exit(0)

    def _end(self, number: int) -> int:
        """Kill a slot with all that it started; returns how often the kernel killed in it for want of memory."""
        slot = self._slots.pop(number, None)
        if slot is None:
            return 0
        with contextlib.suppress(ProcessLookupError):
            os.kill(slot.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(slot.pid, 0)
        # What it left is now a child of this process, because that is a subreaper.
        processes.end_strays({other.pid for other in self._slots.values()})
        if slot.scratch is not None:
            shutil.rmtree(slot.scratch, ignore_errors=True)
        if slot.group is None:
            return 0
        kills = slot.group.kills()
        slot.group.remove()
        return kills

    def _say(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._control.send(json.dumps(message).encode())


def _plain_options(scratch: str, tier: str, readable: list[str]) -> Options:
    """Raises OSError where the tier cannot hold what it promises."""
    if tier == "landlock":
        if not landlock.abi() or not seccomp.supported():
            raise OSError("this kernel has no Landlock, or this architecture no seccomp filter here")
        if os.geteuid() != 0 and not landlock.scopes_signals():
            raise OSError("this kernel's Landlock does not confine signals (Linux 6.12), and there is no root to drop")
    return Options(
        scratch=scratch,
        read_only=readable,
        landlock=tier == "landlock",
    )


def _make_folder(name: str) -> str:
    """A new private folder. Not by `tempfile`, which reseeds its random numbers in every fork."""
    path = f"{os.environ['TMPDIR']}/plaudit-{os.getpid()}-{name}"
    os.mkdir(path, 0o700)
    return path


def main(descriptor: int, tier: str, preload: list[str], packages: list[str], visible: list[str]) -> None:
    """Serve the control socket that was inherited as `descriptor`. packages: folders that programs may import from.

    visible: the directories that they see.
    """
    control = socket.socket(fileno=descriptor)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    syscalls.check(syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1), "subreaper")
    sys.dont_write_bytecode = True
    sys.path += packages
    for name in (*_COMMON, *preload):
        try:
            importlib.import_module(name)
        except ImportError as error:
            control.send(json.dumps({"op": "failed", "error": f"preload {name!r}: {error}"}).encode())
            return
    nursery = Nursery(control, tier, visible)
    # Slots look at none of these objects again: a collection in each would copy every page that they lie in.
    gc.collect()
    gc.freeze()
    nursery.serve()
