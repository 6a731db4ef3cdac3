"""The tiers of the local back end, strongest first, and what each stops in plain words."""

from __future__ import annotations

from plaudit_sandbox.protocol import Isolation

TIERS = ("namespaces", "landlock", "unsafe")

_COMMON = (
    "running longer than its time, output, file size or descriptors allow",
    "ptrace, mount, unshare, setuid, io_uring, bpf, keyctl, userfaultfd, perf, setting the clock (seccomp)",
    "network: no socket of any family but unix",
    "this process's environment, memory, descriptors",
)
_STOPS = {
    "namespaces": (
        *_COMMON,
        "the machine's files: a read-only root with the system's programs and this Python, and an empty /tmp in memory",
        "seeing, signalling or outliving into anything: a PID namespace and a /proc of its own, which end with the run",
        "fork bombs and filling the disk: task limit, /tmp of bounded size",
        "traces of one run in the next",
    ),
    "landlock": (
        *_COMMON,
        "the machine's files, but for reading the system's programs and this Python (Landlock)",
        "signals to other processes (Landlock, or a uid of its own where started as root)",
        "fork bombs: task limit; processes that outlive the run: they are found and killed",
    ),
    "unsafe": ("running longer than its time, output, memory or descriptors allow",),
}
_LETS = {
    "namespaces": (
        "a hole in the kernel itself: all runs share it; for hostile programs use e2b, or docker with runsc",
    ),
    "landlock": (
        "seeing which processes the machine runs is stopped, but their load and the machine's hardware can be told",
        "filling the disk at once: the total is looked at ten times a second",
        "writing to /tmp: only the working directory is writable",
        "a hole in the kernel itself",
    ),
    "unsafe": ("reading and deleting your files, the network, signals to your processes: anything that you may do",),
}


def describe(tier: str, *, cgroup: bool) -> Isolation:
    """The isolation of a tier. cgroup: whether memory is bounded by the kernel for the run as a whole."""
    memory = (
        "using more memory than allowed, all its processes together (cgroup)"
        if cgroup
        else "using more memory than allowed, each process; their sum is looked at ten times a second (no cgroup here)"
    )
    return Isolation("local", tier, (*_STOPS[tier], memory), _LETS[tier])
