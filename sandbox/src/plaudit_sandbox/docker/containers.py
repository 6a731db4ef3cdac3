"""One hardened container with an agent in it: how it is made, and whose it is."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plaudit_sandbox.bundle import agent_source
from plaudit_sandbox.docker.connection import Abilities, engine_errors
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError, SandboxRefused
from plaudit_sandbox.limits import Limits

MACHINE, OWNER, POOL = "plaudit.sandbox", "plaudit.sandbox.owner", "plaudit.sandbox.pool"
_OVERHEAD_MB = 48
_SHARED_MEMORY_MB = 16
_INODES = 20_000
_AGENT_CAPABILITIES = ("SETUID", "SETGID", "SETPCAP", "KILL", "CHOWN", "DAC_OVERRIDE", "FOWNER")
_FIRST_UID, _UIDS = 10_000, 50_000
_GONE_TIMEOUT_S = 60.0
_OOM_EVENTS = {1: "/sys/fs/cgroup/memory/memory.oom_control", 2: "/sys/fs/cgroup/memory.events"}
# The agent comes over stdin, so that an image needs no more than a python3.
_BOOT = """\
import importlib, os, sys
source = b""
while len(source) < int(sys.argv[1]):
    data = os.read(0, int(sys.argv[1]) - len(source))
    if not data:
        sys.exit("stdin closed before the agent had come")
    source += data
for name in sys.argv[2:]:
    importlib.import_module(name)
exec(compile(source, "agent", "exec"))
"""
_count = itertools.count()


@dataclass(frozen=True, slots=True)
class Plan:
    """What all containers of a pool have in common. volumes: those that the image declares."""

    image: str
    python: str
    runtime: str | None
    cpus: float
    preload: tuple[str, ...]
    volumes: tuple[str, ...]
    pool: str
    abilities: Abilities

    @property
    def gvisor(self) -> bool:
        """Whether another kernel runs inside, whose own threads count as the container's."""
        return "runsc" in (self.runtime or self.abilities.default_runtime)

    def source(self) -> bytes:
        """The agent's text."""
        return agent_source(
            scratch="/tmp",
            landlock=False,
            own_uid=self.gvisor,
            count_memory=self.gvisor or not self.abilities.memory,
            count_tasks=self.gvisor or not self.abilities.tasks,
            count_disk=False,
            also_wiped=["/dev/shm"],
            oom_events=_OOM_EVENTS[self.abilities.cgroup_version],
        ).encode()


def launch(client: Any, plan: Plan, limits: Limits) -> tuple[str, Any]:
    """Start a container; returns its id and the attached stream, over which the agent's text is awaited.

    Raises SandboxRefused where the engine will not have it so, InfrastructureFailure where it fails.
    """
    identity = ""
    try:
        identity = client.containers.create(plan.image, **_options(plan, limits)).id
        raw = client.api.attach_socket(identity, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        client.api.start(identity)
    except engine_errors() as error:
        if identity:
            with contextlib.suppress(SandboxError):
                remove(client, identity)
        raise _explained(error) from error
    return identity, raw


def remove(client: Any, identity: str) -> None:
    """Kill a container and return when it and its files are gone. Raises InfrastructureFailure."""
    from docker.errors import APIError, NotFound

    deadline = time.monotonic() + _GONE_TIMEOUT_S
    while True:
        try:
            client.api.remove_container(identity, force=True, v=True)
        except NotFound:
            return
        except APIError as error:
            # It ended by itself, and the engine is at it: 409, or 500 where the two meet.
            if time.monotonic() > deadline:
                raise InfrastructureFailure(
                    f"the Docker engine does not remove container {identity[:12]}: {error}"
                ) from error
            time.sleep(0.02)
        except engine_errors() as error:
            raise InfrastructureFailure(f"removing container {identity[:12]}: {error}") from error
        else:
            return


def remove_pool(client: Any, pool: str) -> None:
    """Remove what a pool left, if anything. Raises InfrastructureFailure."""
    for each in _listed(client, {POOL: pool}):
        remove(client, each["Id"])


def reap(client: Any) -> None:
    """Remove the containers of processes of this machine that are no more. Raises InfrastructureFailure."""
    for each in _listed(client, {MACHINE: _machine()}):
        pid, _, began = each["Labels"].get(OWNER, "").partition(".")
        if not pid.isdigit() or _began(int(pid)) != began:
            remove(client, each["Id"])


def _listed(client: Any, labels: Mapping[str, str]) -> list[dict[str, Any]]:
    wanted = [f"{name}={value}" for name, value in labels.items()]
    try:
        found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": wanted})
    except engine_errors() as error:
        raise InfrastructureFailure(f"the Docker engine does not list its containers: {error}") from error
    return found


def _options(plan: Plan, limits: Limits) -> dict[str, Any]:
    memory = f"{limits.memory_mb + _OVERHEAD_MB}m"
    uid = _FIRST_UID + (os.getpid() * 64 + next(_count)) % _UIDS
    tmpfs = dict.fromkeys(plan.volumes, "ro,size=4k")
    tmpfs["/tmp"] = f"rw,exec,nosuid,nodev,size={limits.disk_mb}m,nr_inodes={_INODES},mode=1777"
    options: dict[str, Any] = {
        "entrypoint": [plan.python, "-I", "-B", "-c", _BOOT],
        "command": [str(len(plan.source())), *plan.preload],
        "user": f"{uid}:{uid}",
        "working_dir": "/tmp",
        "hostname": "sandbox",
        "stdin_open": True,
        "auto_remove": True,
        "network_mode": "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "ipc_mode": "private",
        "shm_size": f"{_SHARED_MEMORY_MB}m",
        "tmpfs": tmpfs,
        "mem_limit": memory,
        "memswap_limit": memory,
        "healthcheck": {"test": ["NONE"]},
        "log_config": {"type": "none"},
        "use_config_proxy": False,
        "labels": {MACHINE: _machine(), OWNER: f"{os.getpid()}.{_began(os.getpid())}", POOL: plan.pool},
    }
    if plan.abilities.cpu:
        options["nano_cpus"] = int(plan.cpus * 1e9)
    if plan.abilities.tasks and not plan.gvisor:
        options["pids_limit"] = limits.processes + 1
    if plan.gvisor:
        # Its kernel lets a program kill and look into a PID 1 of its own user, so the agent is another: root, in there.
        options.update(user="0:0", cap_add=list(_AGENT_CAPABILITIES))
    if plan.runtime is not None:
        options["runtime"] = plan.runtime
    return options


def _explained(error: BaseException) -> SandboxError:
    from docker.errors import APIError

    if isinstance(error, APIError) and error.is_client_error() and error.status_code not in (408, 409, 429):
        return SandboxRefused(f"the Docker engine refuses the sandbox's container: {error.explanation or error}")
    return InfrastructureFailure(f"the Docker engine failed to start a container: {error}")


def _machine() -> str:
    """Tells process ids of this machine, and of this PID namespace, from those of others at the same engine."""
    text = Path("/proc/sys/kernel/random/boot_id").read_text() + os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _began(pid: int) -> str:
    """When a process started, in clock ticks since boot; "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
