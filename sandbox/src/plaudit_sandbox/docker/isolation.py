"""What holds in a container: looked at from within, and told in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit_sandbox.docker.containers import Plan
from plaudit_sandbox.errors import SandboxRefused
from plaudit_sandbox.protocol import Isolation

PROBE = """\
import json, os
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
try: interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
except OSError: interfaces = []
try: open("/plaudit-probe", "w").close()
except OSError: writable = False
else: writable = True
print(json.dumps({
    "uid": os.getuid(), "interfaces": interfaces, "writable_root": writable,
    "capabilities": status.get("CapBnd", "0"), "no_new_privileges": status.get("NoNewPrivs", "1"),
    "seccomp": status.get("Seccomp", "2"),
}))
"""


def describe(plan: Plan, seen: Mapping[str, Any]) -> Isolation:
    """The isolation of a plan's containers. Raises SandboxRefused if the engine did not do as it was told."""
    _insist(seen)
    able = plan.abilities
    stops = [
        "running longer than its time, output, file size or descriptors allow",
        "network: the container has no interface but its own loopback",
        "the machine's files, processes and environment: a container of its own, its root read-only",
        "privileges: a uid of its own, no capability, no-new-privileges",
        "ptrace, mount, unshare, setuid, io_uring, bpf, keyctl, userfaultfd, perf, setting the clock (seccomp: the "
        + ("engine's filter and the agent's)" if able.seccomp else "agent's filter; the engine has none)"),
        "filling the disk: /tmp is memory of bounded size; traces of one run in the next: all is killed and wiped",
    ]
    lets = []
    for bounded, what, instead in (
        (able.memory, "using more memory than allowed, all its processes together", "their sum is watched"),
        (able.tasks or plan.gvisor, "fork bombs", "each uid's tasks are bounded"),
        (able.cpu, f"using more than {plan.cpus:g} CPUs at a time", "they may use all"),
    ):
        if bounded:
            stops.append(what)
        else:
            lets.append(f"{what}, by the kernel: the engine cannot bound it here; {instead}")
    if plan.gvisor:
        lets.append("reading the agent's environment and seeing which descriptors it has, but not opening them")
    else:
        lets.append(
            "a hole in the kernel itself, which all containers share; for hostile programs runtime='runsc', or e2b"
        )
    if not able.rootless:
        lets.append("whoever may speak to the engine's socket is root on its machine; programs here cannot reach it")
    return Isolation("docker", plan.runtime or able.default_runtime, tuple(stops), tuple(lets))


def _insist(seen: Mapping[str, Any]) -> None:
    wrong = [
        text
        for held, text in (
            (seen["uid"] != 0, "programs run as root"),
            (set(seen["interfaces"]) <= {"lo"} or not set(seen["interfaces"]) - _TUNNELS, "it has a network"),
            (not seen["writable_root"], "its root can be written"),
            (int(seen["capabilities"], 16) == 0, "it keeps capabilities"),
            (seen["no_new_privileges"] == "1", "privileges may be gained"),
            (seen["seccomp"] != "0", "no seccomp filter is in force"),
        )
        if not held
    ]
    if wrong:
        raise SandboxRefused(f"the Docker engine did not harden the container as asked: {', '.join(wrong)}")


# The kernel makes these in every network namespace where the modules are loaded; they lead nowhere.
_TUNNELS = frozenset({"lo", "tunl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "sit0", "ip6tnl0", "ip6gre0"})
