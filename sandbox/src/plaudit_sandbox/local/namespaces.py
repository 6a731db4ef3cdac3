"""The strongest tier: user, PID, mount, network, IPC, UTS and cgroup namespaces, in ctypes.

A slot is a keeper (the nursery's child) and, in the namespaces, a zygote that serves as their init. Each run is a fork
of it with a /tmp in memory, and takes nothing of an earlier one but the next process ids.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import NoReturn

from plaudit_sandbox.agent import confine, processes, seccomp, syscalls
from plaudit_sandbox.agent.request import Settings
from plaudit_sandbox.agent.syscalls import check, libc
from plaudit_sandbox.local import mounts
from plaudit_sandbox.local.cgroup import SlotGroup

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x00020000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
_ALL = NEWUSER | NEWPID | NEWNET | NEWIPC | NEWUTS | NEWNS | NEWCGROUP
_NOBODY = 65534
_INSIDE = 1000
_ZYGOTE_CALLS = ("mount", "umount2", "capset")
_PROC_FLAGS = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC


def enter(base: str, paths: Sequence[str]) -> None:
    """Move this process into namespaces of its own, as a user without any privilege outside them.

    Returns in the zygote, which is PID 1 there; the process that called stays behind as its keeper and ends with it.
    Raises OSError where the machine does not allow it.
    """
    as_root = os.geteuid() == 0
    if as_root:
        # Done before the privileges go, so that the bind mounts do not depend on what the machine grants to nobody.
        check(libc.unshare(NEWNS), "unshare mounts")
        mounts.enter_root(base, paths)
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)
        syscalls.die_with_parent()
    uid, gid = os.geteuid(), os.getegid()
    check(libc.unshare(_ALL), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{_INSIDE} {uid} 1"), ("gid_map", f"{_INSIDE} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    zygote = os.fork()
    if zygote:
        _keep(zygote)
    syscalls.die_with_parent()
    if not as_root:
        mounts.enter_root(base, paths)
    libc.sethostname(b"sandbox", 7)
    _mount_proc()
    mounts.seal_root()
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)


def _mount_proc() -> None:
    """A /proc of these namespaces, without what it tells of the machine where the kernel can leave that out (5.8)."""
    try:
        mounts.mount("proc", "/proc", "proc", _PROC_FLAGS, "subset=pid")
    except OSError:
        mounts.mount("proc", "/proc", "proc", _PROC_FLAGS)


def _keep(zygote: int) -> NoReturn:
    with contextlib.suppress(OSError):
        os.closerange(0, 1024)
    os.waitpid(zygote, 0)
    os._exit(0)


class NamespaceConfinement(confine.Confinement):
    """Runs in the slot's namespaces over a /tmp of their own.

    The zygote is PID 1 there: a program cannot signal it, and one kill(-1) ends all that a run left.
    """

    def __init__(self, group: SlotGroup | None, kept: Sequence[str] = ()) -> None:
        self._group, self._kept = group, tuple(kept)
        # What is kept in /tmp must not look like the run's own files.
        self.home = "/tmp/home" if kept else "/tmp"
        # The zygote keeps what it needs for a run's /tmp. A program has no use of it without capabilities, which it
        # cannot get back: no exec grants any, and the filter allows no new namespace.
        syscalls.drop_bounding_set()
        seccomp.install(unix_sockets=True, allow=_ZYGOTE_CALLS)
        self.watches = group is None
        self._look_at = 0.0

    def prepare(self, settings: Settings) -> None:
        """Mount the run's /tmp."""
        size = f"size={settings.disk},nr_inodes=20000,mode=1777"
        mounts.mount_tmp(size, self._kept)
        if self._kept:
            os.mkdir(self.home)
        self._look_at = time.monotonic() + confine.LOOK_EVERY_S
        if self._group is not None:
            self._group.limit_memory(settings.memory)

    def begin(self, settings: Settings) -> None:
        """Into the run's /tmp, and a session of its own."""
        os.setsid()
        os.chdir(self.home)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)

    def task_limit(self, settings: Settings) -> int | None:
        """RLIMIT_NPROC counts in the slot's user namespace: the zygote comes on top."""
        return settings.processes + 1

    def lock(self) -> None:
        """Give up every capability; the filter and no_new_privs are the zygote's."""
        syscalls.drop_capabilities()

    def open_scratch(self) -> int:
        """A descriptor of the run's /tmp, which the zygote shares."""
        return os.open(self.home, os.O_RDONLY | os.O_DIRECTORY)

    def over_limits(self, settings: Settings, now: float) -> tuple[str, str] | None:
        """Without a cgroup, the sum of the resident memory is watched."""
        if now < self._look_at:
            return None
        self._look_at = now + confine.LOOK_EVERY_S
        if processes.resident_bytes(os.getpid()) > settings.memory:
            return "memory", f"its processes together over {settings.memory >> 20} MiB"
        return None

    def out_of_memory_kills(self) -> int:
        """As the slot's cgroup counts them."""
        return self._group.kills() if self._group is not None else 0

    def clean(self) -> None:
        """End what the run left, and drop its files with their mount."""
        processes.end_descendants(processes.kill_everyone)
        mounts.unmount("/tmp")
