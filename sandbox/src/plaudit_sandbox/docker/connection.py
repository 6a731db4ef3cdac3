"""Reaching a Docker engine through the SDK, and what it can bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from plaudit_sandbox.errors import SandboxError, SandboxRefused

_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine's kernel lets it bound. cgroup_version: 1 or 2."""

    memory: bool
    tasks: bool
    cpu: bool
    seccomp: bool
    cgroup_version: int
    runtimes: tuple[str, ...]
    default_runtime: str
    rootless: bool


def engine_errors() -> tuple[type[BaseException], ...]:
    """What talking to an engine can raise. The SDK is imported when an engine is used, not when this package is."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    return DockerException, RequestException, OSError


def connect(base_url: str | None) -> Any:
    """A client of the engine at `base_url`, or where DOCKER_HOST points. Raises SandboxRefused if none answers."""
    try:
        import docker
        from docker.errors import DockerException
    except ImportError as error:
        raise SandboxError(
            "the sandbox back end 'docker' needs docker: pip install 'plaudit-sandbox[docker]'"
        ) from error
    where = base_url or "DOCKER_HOST, or the usual socket"
    try:
        if base_url is not None:
            client = docker.DockerClient(base_url=base_url, timeout=_TIMEOUT_S, version="auto")
        else:
            client = docker.from_env(timeout=_TIMEOUT_S, version="auto")
    except (DockerException, ValueError) as error:
        raise SandboxRefused(
            f"no Docker engine answers at {where} ({error}). Start one, or name its address: base_url='unix:///…'"
        ) from error
    if not client.api.base_url.startswith("http+docker://localhost") and not client.api.base_url.startswith("http://"):
        client.close()
        raise SandboxRefused(
            f"the Docker engine at {where} is reached over TLS or ssh, which this back end does not speak. Forward its "
            "socket and name that: `ssh -NL /tmp/docker.sock:/var/run/docker.sock HOST`, base_url='unix:///tmp/docker.sock'"
        )
    return client


def abilities(client: Any) -> Abilities:
    """As the engine tells. Raises DockerException."""
    info = client.info()
    return Abilities(
        memory=bool(info.get("MemoryLimit")),
        tasks=bool(info.get("PidsLimit")),
        cpu=bool(info.get("CpuCfsQuota")),
        seccomp=any("name=seccomp" in option for option in info.get("SecurityOptions") or ()),
        cgroup_version=int(info.get("CgroupVersion") or 1),
        runtimes=tuple(sorted(info.get("Runtimes") or {})),
        default_runtime=str(info.get("DefaultRuntime") or "runc"),
        rootless=any("name=rootless" in option for option in info.get("SecurityOptions") or ()),
    )
