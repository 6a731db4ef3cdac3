"""The `docker` back end: containers of one engine as slots."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from plaudit_sandbox.docker import containers
from plaudit_sandbox.docker.connection import abilities, connect, engine_errors
from plaudit_sandbox.docker.containers import Plan
from plaudit_sandbox.docker.image import find_image
from plaudit_sandbox.docker.isolation import PROBE, describe
from plaudit_sandbox.docker.threads import in_thread
from plaudit_sandbox.docker.transport import ContainerTransport
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError, SandboxRefused
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.protocol import Isolation, Transport
from plaudit_sandbox.ranks import share_of_machine
from plaudit_sandbox.request import make_request
from plaudit_sandbox.slot import Slot


@dataclass(frozen=True, slots=True)
class _Engine:
    client: Any
    plan: Plan


class DockerBackend:
    """Programs in warm, hardened containers.

    image: any that has a python3 of 3.10 or later; None: the first that the engine has of python:3.x-slim and the
    minimal image of `plaudit_sandbox.docker.image`. Nothing is pulled. base_url: the engine, e.g. "unix:///…"; None:
    DOCKER_HOST, or the usual socket. runtime: such as "runsc". cpus: CPUs of each container. python: the
    interpreter's name or path in the image. preload: modules that programs find already imported. recycle_after: runs
    after which a container is replaced. max_slots: runs at once in this process; by default this rank's share of the
    CPUs. max_sessions: open sessions at once, each with a container of its own.
    """

    name = "docker"

    def __init__(
        self,
        *,
        image: str | None = None,
        base_url: str | None = None,
        runtime: str | None = None,
        cpus: float = 1.0,
        python: str = "python3",
        preload: Sequence[str] = (),
        recycle_after: int = 1000,
        max_slots: int | None = None,
        max_sessions: int = 64,
    ) -> None:
        for option, value in (("cpus", cpus), ("recycle_after", recycle_after), ("max_sessions", max_sessions)):
            if not value > 0:
                raise SandboxError(f"{option}={value!r}: expected a number above 0")
        self.max_slots = max_slots or share_of_machine(os.cpu_count() or 1)
        self.max_sessions = max_sessions
        self.recycle_after: int | None = recycle_after
        self._image, self._base_url, self._runtime = image, base_url, runtime
        self._cpus, self._python, self._preload = cpus, python, tuple(preload)
        self._engine: _Engine | None = None
        self._connecting = asyncio.Lock()

    def slot_key(self, limits: Limits) -> Hashable:
        """What the engine fixes at a container's start."""
        return limits.memory_mb, limits.processes, limits.disk_mb

    async def start(self, limits: Limits) -> Transport:
        """Start a container and give it its agent."""
        engine = await self._connected()
        launching = asyncio.ensure_future(in_thread(containers.launch, engine.client, engine.plan, limits))
        try:
            transport = ContainerTransport(engine.client, *await asyncio.shield(launching))
        except asyncio.CancelledError:
            with contextlib.suppress(SandboxError):
                await ContainerTransport(engine.client, *await launching).close()
            raise
        try:
            await transport.send(engine.plan.source())
        except OSError:
            await transport.close()
            raise InfrastructureFailure("the container ended before its agent had come") from None
        except BaseException:
            await transport.close()
            raise
        return transport

    async def isolation(self) -> Isolation:
        """Looks from within a container at what holds there."""
        engine = await self._connected()
        try:
            seen = await self._probe()
        except InfrastructureFailure as error:
            raise SandboxRefused(f"no program runs in a container of {engine.plan.image!r} here: {error}") from error
        return describe(engine.plan, seen)

    async def close(self) -> None:
        """Leave no container, whatever became of the pool's own account of them."""
        engine, self._engine = self._engine, None
        if engine is not None:
            try:
                await in_thread(containers.remove_pool, engine.client, engine.plan.pool)
            finally:
                engine.client.close()

    async def _probe(self) -> dict[str, Any]:
        limits = Limits()
        slot = Slot(await self.start(limits), None)
        try:
            await slot.greet()
            result = await slot.run(make_request(PROBE, limits))
        finally:
            await slot.close()
        if not result.ok:
            raise InfrastructureFailure(f"{result.detail} {result.error_text}")
        seen: dict[str, Any] = json.loads(result.stdout)
        return seen

    async def _connected(self) -> _Engine:
        async with self._connecting:
            if self._engine is None:
                self._engine = await in_thread(self._connect)
            return self._engine

    def _connect(self) -> _Engine:
        client = connect(self._base_url)
        try:
            containers.reap(client)
            image = find_image(client, self._image)
            volumes = client.images.get(image).attrs.get("Config", {}).get("Volumes") or {}
            plan = Plan(
                image=image,
                python=self._python,
                runtime=self._runtime,
                cpus=self._cpus,
                preload=self._preload,
                volumes=tuple(volumes),
                pool=secrets.token_hex(8),
                abilities=abilities(client),
            )
        except engine_errors() as error:
            client.close()
            raise InfrastructureFailure(f"the Docker engine does not answer: {error}") from error
        except BaseException:
            client.close()
            raise
        return _Engine(client, plan)
