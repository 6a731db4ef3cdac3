"""Finding and ending processes.

Ending must win against a program that forks as fast as it can. kill(-1) does: it takes everyone that the caller may
signal in one step. Where the caller may signal too many for that, the tree is stopped first, and then killed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable


def end_descendants(kill_all: Callable[[], None]) -> None:
    """Kill and reap all descendants of this process, which must be their subreaper or PID 1."""
    while _reap_all():
        kill_all()
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def kill_everyone() -> None:
    """All that this process may signal: only for PID 1 of a namespace, or within a Landlock domain of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL)


def kill_user(uid: int) -> None:
    """All processes of a uid that nobody else uses; as root."""
    helper = os.fork()
    if helper == 0:
        try:
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(helper, 0)


def kill_tree() -> None:
    """All descendants of this process, as /proc shows them."""
    _stop_and_kill(lambda: descendants({os.getpid()}))


def end_strays(known: set[int]) -> None:
    """Kill and reap every child of this process that is not `known`, and all beneath."""

    def strays() -> list[int]:
        return [pid for pid in _children(os.getpid()) if pid not in known]

    while roots := strays():
        _stop_and_kill(lambda: [*strays(), *descendants(strays())])
        for pid in roots:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def resident_bytes(root: int) -> int:
    """Resident memory of all descendants of the process `root`, in bytes."""
    page = resource.getpagesize()
    return sum(int(fields[21]) * page for pid in descendants({root}) if (fields := _fields(pid)))


def tasks_of(uid: int) -> int:
    """Threads of all processes of a user."""
    total = 0
    for pid in _numbers():
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid == uid:
                total += len(os.listdir(f"/proc/{pid}/task"))
    return total


def descendants(roots: Iterable[int]) -> list[int]:
    """All processes beneath some, as /proc shows them."""
    of = _children if _children_are_listed() else _families().__getitem__
    found, newest = list[int](), list(roots)
    while newest := [child for pid in newest for child in of(pid)]:
        found += newest
    return found


def _children_are_listed() -> bool:
    """Whether this kernel lists a process's children, so that nobody has to look at every process of the machine."""
    return os.path.exists("/proc/thread-self/children")


def _children(pid: int) -> list[int]:
    if not _children_are_listed():
        return _families()[pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _families() -> dict[int, list[int]]:
    """The children of every process."""
    found = defaultdict[int, list[int]](list)
    for pid in _numbers():
        if fields := _fields(pid):
            found[int(fields[1])].append(pid)
    return found


def _stop_and_kill(find: Callable[[], list[int]]) -> None:
    """A process that is stopped forks no more, and still counts against the limit of those that are not."""
    stopped: set[int] = set()
    while new := set(find()) - stopped:
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        _signal(pid, signal.SIGKILL)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _reap_all() -> bool:
    """Reap what has ended; whether any child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _fields(pid: int) -> list[bytes]:
    """/proc/PID/stat from its third field on, so that the parent is 1 and the resident pages are 21; [] if gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []
