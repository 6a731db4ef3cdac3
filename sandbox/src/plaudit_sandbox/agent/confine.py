"""How a run is confined where namespaces are not at hand: Landlock, seccomp, limits, a uid of its own.

The same class serves containers and remote machines, whose walls stand outside the agent. `Confinement` is also what
the namespaces of `plaudit_sandbox.local` build on.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Sequence
from typing import NamedTuple

from . import landlock, seccomp, syscalls, workdir
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
    """

    scratch: str
    read_only: Sequence[str] = ()
    landlock: bool = True
    own_uid: bool = True
    count_memory: bool = True
    count_tasks: bool = True
    count_disk: bool = True


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

    def prepare(self, settings: Settings) -> None:
        """Before a run, in the agent."""
        now = time.monotonic()
        self._look_at = now + LOOK_EVERY_S
        if self._options.count_tasks and self._uid is None and now >= self._counted_at + _COUNT_EVERY_S:
            self._others, self._counted_at = _tasks_of(os.getuid()), now

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
        if self._options.count_memory and resident_bytes(os.getpid()) > settings.memory:
            return "memory", f"its processes together over {settings.memory >> 20} MiB"
        if self._options.count_disk and workdir.used_bytes(self._options.scratch) > settings.disk:
            return "output", f"its files together over {settings.disk >> 20} MiB"
        return None

    def out_of_memory_kills(self) -> int:
        """How often the kernel killed for want of memory in this agent's cgroup; 0 where nobody counts."""
        return 0

    def clean(self) -> None:
        """After a run: end whatever it left running, delete whatever it left lying."""
        end_descendants(self._uid)
        workdir.wipe(self._options.scratch)


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
            resource.setrlimit(name, (hard, hard))


def limit_cpu(cpu_s: float) -> None:
    """SIGXCPU after that many CPU seconds, rounded up, and SIGKILL a second later."""
    seconds = max(1, -int(-cpu_s // 1))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))


def end_descendants(uid: int | None) -> None:
    """Kill and reap all descendants of this process, which must be their subreaper or PID 1."""
    while _reap_all():
        if os.getpid() == 1:
            _kill(-1)
        elif uid is not None:
            _kill_all_of(uid)
        else:
            for child in _children():
                _kill(child)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def end_strays(known: set[int]) -> None:
    """Kill and reap every child of this process that is not `known`, and what they leave in turn."""
    while strays := [pid for pid in _children() if pid not in known]:
        for pid in strays:
            _kill(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _reap_all() -> bool:
    """Reap what has ended; whether any child is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _kill_all_of(uid: int) -> None:
    """kill(-1) as that uid reaches all its processes at once, so that none can fork its way out."""
    helper = os.fork()
    if helper == 0:
        try:
            os.setresuid(uid, uid, uid)
            os.kill(-1, signal.SIGKILL)
        finally:
            os._exit(0)
    os.waitpid(helper, 0)


def resident_bytes(root: int) -> int:
    """Resident memory of all descendants of the process `root`, in bytes."""
    page = resource.getpagesize()
    return sum(int(fields[21]) * page for pid in _descendants(root) if (fields := _fields(pid)))


def _children() -> list[int]:
    return [pid for pid, parent in _parents().items() if parent == os.getpid()]


def _descendants(root: int) -> list[int]:
    parents = _parents()
    known, found = {root}, list[int]()
    waiting = sorted(parents)
    while True:
        new = [pid for pid in waiting if parents[pid] in known]
        if not new:
            return found
        known.update(new)
        found += new
        waiting = [pid for pid in waiting if pid not in known]


def _parents() -> dict[int, int]:
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _fields(int(name))
            if fields:
                found[int(name)] = int(fields[1])
    return found


def _fields(pid: int) -> list[bytes]:
    """/proc/PID/stat from its third field on, so that the parent is 1 and the resident pages are 21; [] if gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _tasks_of(uid: int) -> int:
    """Threads of all processes of a user."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return total


def _readable(options: Options) -> list[str]:
    return [*options.read_only, "/dev/urandom", "/dev/random"]


def _writable(options: Options) -> list[str]:
    return [options.scratch, "/dev/null", "/dev/zero", "/dev/full"]
