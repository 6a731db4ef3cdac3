"""How a run is confined where namespaces are not at hand: Landlock, seccomp, limits, a uid of its own.

The same class serves containers and remote machines, whose walls stand outside the agent. `Confinement` is also what
the namespaces of `plaudit_sandbox.local` build on.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from . import landlock, processes, seccomp, syscalls, workdir
from .request import Settings

_FIRST_UID, _UIDS = 10_000, 50_000
LOOK_EVERY_S = 0.1
_COUNT_EVERY_S = 1.0
_USER_CALLS = ("setuid", "setresuid", "setresgid", "setgroups", "capset")


class Options(NamedTuple):
    """How an agent confines its runs.

    scratch: the working directory, wiped at first and after each run. read_only: what else may be read and executed
    under Landlock. landlock: off where a container is the wall. own_uid: as root, run programs as a uid of their own.
    count_memory, count_tasks, count_disk: bound the run as a whole here, because nothing outside does.
    also_wiped: other directories that programs can write to. oom_events: the file in which the kernel counts what it
    killed in this agent's cgroup for want of memory.
    """

    scratch: str
    read_only: Sequence[str] = ()
    landlock: bool = True
    own_uid: bool = True
    count_memory: bool = True
    count_tasks: bool = True
    count_disk: bool = True
    also_wiped: Sequence[str] = ()
    oom_events: str | None = None


class Confinement:
    """One agent's way of confining its runs, one at a time."""

    home: str
    """The working directory's path as programs see it."""
    watches = True
    """Whether `over_limits` is to be asked while a run goes on."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.home = options.scratch
        self._uid = _FIRST_UID + os.getpid() % _UIDS if options.own_uid and os.geteuid() == 0 else None
        self._reads_all = self._uid is not None and options.landlock and not _open_to_all(options.read_only)
        self._ruleset = landlock.make_ruleset(_readable(options), _writable(options)) if options.landlock else None
        self._look_at = self._counted_at = 0.0
        self._others = 0
        self._oom_events = _open_counter(options.oom_events)
        self._kill_all = self._choose_kill_all()
        syscalls.drop_bounding_set(keep_reading=self._reads_all)
        syscalls.no_new_privileges()
        if seccomp.supported():
            # Landlock cannot hide the machine's own sockets (/run/…); inside a container there are none. As root, the
            # agent keeps what changes its user: of no use to a program, which has no capability left.
            allow = _USER_CALLS if self._uid is not None else ()
            seccomp.install(unix_sockets=not options.landlock, allow=allow)
        if self._uid is not None:
            os.chown(options.scratch, self._uid, self._uid)
        workdir.wipe(options.scratch)

    def _choose_kill_all(self) -> Callable[[], None]:
        """What reaches every process of a run at once, so that none can fork its way out; see `processes`."""
        if os.getpid() == 1:
            return processes.kill_everyone
        if self._uid is not None:
            return partial(processes.kill_user, self._uid)
        if self._options.landlock and landlock.scopes_signals():
            landlock.confine_signals()
            return processes.kill_everyone
        return processes.kill_tree

    def prepare(self, settings: Settings) -> None:
        """Before a run, in the agent."""
        now = time.monotonic()
        self._look_at = now + LOOK_EVERY_S
        if self._options.count_tasks and self._uid is None and now >= self._counted_at + _COUNT_EVERY_S:
            self._others, self._counted_at = processes.tasks_of(os.getuid()), now

    def begin(self, settings: Settings) -> None:
        """In the run's process, before its files are written."""
        os.setsid()
        os.chdir(self._options.scratch)
        syscalls.die_with_parent()
        if self._uid is not None:
            syscalls.change_user(self._uid, keep_reading=self._reads_all)
            syscalls.die_with_parent()
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 1)

    def task_limit(self, settings: Settings) -> int | None:
        """RLIMIT_NPROC, which counts all tasks of the uid, the machine's others included. None: leave it."""
        return settings.processes + self._others if self._options.count_tasks else None

    def lock(self) -> None:
        """The last step: give up every privilege, for good. Descriptors above 2 may still be open."""
        if self._ruleset is not None:
            landlock.restrict(self._ruleset)
        if os.geteuid() == 0:
            syscalls.drop_capabilities()
        elif self._reads_all:
            syscalls.keep_only_reading()

    def open_scratch(self) -> int:
        """A descriptor of the run's working directory, in the agent."""
        return os.open(self._options.scratch, os.O_RDONLY | os.O_DIRECTORY)

    def over_limits(self, settings: Settings, now: float) -> tuple[str, str] | None:
        """(status, detail) if the run as a whole is over what no kernel limit bounds; looks ten times a second."""
        if now < self._look_at:
            return None
        self._look_at = now + LOOK_EVERY_S
        if self._options.count_memory and processes.resident_bytes(os.getpid()) > settings.memory:
            return "memory", f"its processes together over {settings.memory >> 20} MiB"
        if self._options.count_disk and workdir.used_bytes(self._options.scratch) > settings.disk:
            return "output", f"its files together over {settings.disk >> 20} MiB"
        return None

    def out_of_memory_kills(self) -> int:
        """How often the kernel killed for want of memory in this agent's cgroup; 0 where nobody counts."""
        if self._oom_events is None:
            return 0
        for line in os.pread(self._oom_events, 4096, 0).splitlines():
            name, _, count = line.partition(b" ")
            if name == b"oom_kill":
                return int(count)
        return 0

    def clean(self) -> None:
        """After a run: end whatever it left running, delete whatever it left lying."""
        processes.end_descendants(self._kill_all)
        for path in (self._options.scratch, *self._options.also_wiped):
            workdir.wipe(path)


def _open_counter(path: str | None) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path else None
    except OSError:  # another kernel inside, such as gVisor
        return None


def _open_to_all(paths: Sequence[str]) -> bool:
    """Whether a user without rights may enter all of these directories."""
    for path in filter(os.path.isdir, paths):
        while path != "/":
            if not os.stat(path).st_mode & 1:
                return False
            path = os.path.dirname(path)
    return True


def set_constant_limits() -> None:
    """In the agent, for all its runs: no core files, locked memory or message queues."""
    for name in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        with contextlib.suppress(ValueError):  # gVisor has no such limits, nor what they bound
            resource.setrlimit(name, (0, 0))


def set_limits(settings: Settings, *, cpu_s: float, tasks: int | None) -> None:
    """The kernel's limits on this process and each of its children."""
    limit_cpu(cpu_s)
    limits = [
        (resource.RLIMIT_DATA, settings.memory),
        (resource.RLIMIT_FSIZE, settings.file),
        (resource.RLIMIT_NOFILE, settings.open_files),
    ]
    if tasks is not None:
        limits.append((resource.RLIMIT_NPROC, tasks))
    for name, value in limits:
        try:
            resource.setrlimit(name, (value, value))
        except ValueError:  # the machine allows less
            hard = resource.getrlimit(name)[1]
            with contextlib.suppress(ValueError):  # gVisor, of a limit that it does not know
                resource.setrlimit(name, (hard, hard))


def limit_cpu(cpu_s: float) -> None:
    """SIGXCPU after that many CPU seconds, rounded up, and SIGKILL a second later."""
    seconds = max(1, -int(-cpu_s // 1))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def _readable(options: Options) -> list[str]:
    return [*options.read_only, "/dev/urandom", "/dev/random"]


def _writable(options: Options) -> list[str]:
    return [options.scratch, "/dev/null", "/dev/zero", "/dev/full"]
