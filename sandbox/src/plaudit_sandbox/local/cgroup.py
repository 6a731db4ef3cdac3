"""A memory cgroup for each slot, where this process may make one (v1 and v2)."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

_OVERHEAD = 48 << 20
_V1, _V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"
PREFIX = "plaudit-"


@dataclass(frozen=True)
class Hierarchy:
    """Where groups are made. version: 1 or 2."""

    parent: str
    version: int


def find() -> Hierarchy | None:
    """A place where a memory group can be made, tried by making one; None where there is none."""
    for hierarchy in _candidates():
        path = os.path.join(hierarchy.parent, f"{PREFIX}probe-{os.getpid()}")
        try:
            os.mkdir(path)
            try:
                with open(os.path.join(path, _limit_file(hierarchy)), "w") as file:
                    file.write(str(1 << 30))
            finally:
                os.rmdir(path)
        except OSError:
            continue
        return hierarchy
    return None


class SlotGroup:
    """The group of one slot. Descriptors are opened before privileges are dropped and used after."""

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self.path = os.path.join(hierarchy.parent, name)
        os.mkdir(self.path)
        self._version = hierarchy.version
        self._limit = self._open(_limit_file(hierarchy), os.O_WRONLY)
        self._events = self._open("memory.oom_control" if hierarchy.version == 1 else "memory.events", os.O_RDONLY)
        self._current = 0
        with contextlib.suppress(OSError):
            self._write("memory.swap.max", "0")

    def join(self) -> None:
        """Move this process in; its children follow."""
        self._write("cgroup.procs", str(os.getpid()))

    def limit_memory(self, size: int) -> None:
        """Bound the slot's memory to `size` bytes and what the zygote itself needs."""
        if size != self._current:
            with contextlib.suppress(OSError):  # still using more than the new limit: the old one holds a while
                os.pwrite(self._limit, str(size + _OVERHEAD).encode(), 0)
                self._current = size

    def kills(self) -> int:
        """How many processes the kernel has killed in it for want of memory."""
        for line in os.pread(self._events, 4096, 0).splitlines():
            name, _, count = line.partition(b" ")
            if name == b"oom_kill":
                return int(count)
        return 0

    def remove(self) -> None:
        """Delete the group, once its processes are gone, and close its descriptors."""
        for descriptor in (self._limit, self._events):
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.rmdir(self.path)

    def _open(self, name: str, flags: int) -> int:
        return os.open(os.path.join(self.path, name), flags | os.O_CLOEXEC)

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self.path, name), "w") as file:
            file.write(text)


def sweep(hierarchy: Hierarchy) -> None:
    """Remove empty groups that nurseries left which are no more."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(hierarchy.parent):
            owner = entry.name.removeprefix(PREFIX).split("-")[0]
            if entry.name.startswith(PREFIX) and not os.path.exists(f"/proc/{owner}"):
                with contextlib.suppress(OSError):
                    os.rmdir(entry.path)


def _limit_file(hierarchy: Hierarchy) -> str:
    return "memory.limit_in_bytes" if hierarchy.version == 1 else "memory.max"


def _candidates() -> list[Hierarchy]:
    found = []
    with contextlib.suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                found.append(Hierarchy(_V1 + path, 1))
            elif not controllers:
                # A group with processes of its own cannot hand out memory: look beside it, and at the top.
                for place in (path, os.path.dirname(path), "/"):
                    found.append(Hierarchy(_V2 + place, 2))
    return [each for each in found if each.version == 1 or _hands_out_memory(each.parent)]


def _hands_out_memory(path: str) -> bool:
    try:
        with open(os.path.join(path, "cgroup.subtree_control")) as file:
            return "memory" in file.read().split()
    except OSError:
        return False
