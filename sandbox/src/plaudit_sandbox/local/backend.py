"""The `local` back end: which tier, how many slots."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Hashable, Sequence

from plaudit_sandbox.errors import InfrastructureFailure, SandboxError, SandboxRefused
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.local.client import NurseryClient
from plaudit_sandbox.local.tiers import TIERS, describe
from plaudit_sandbox.protocol import Isolation, Transport
from plaudit_sandbox.ranks import share_of_machine


class LocalBackend:
    """Programs on this machine.

    max_slots: runs at once in this process; by default this rank's share of the CPUs. max_sessions: open sessions at
    once; a rollout that has one keeps it until its batch is scored. preload: modules that programs find already
    imported, such as ("numpy",). tier: insist on one of "namespaces", "landlock". allow_unsafe: where neither is to be
    had, run programs with limits alone instead of refusing.
    """

    name = "local"
    recycle_after: int | None = 10_000

    def __init__(
        self,
        *,
        max_slots: int | None = None,
        max_sessions: int = 1024,
        preload: Sequence[str] = (),
        tier: str | None = None,
        allow_unsafe: bool = False,
    ) -> None:
        if tier is not None and tier not in TIERS:
            raise SandboxError(f"tier={tier!r}: expected one of {', '.join(TIERS)}")
        self.max_slots = max_slots or share_of_machine(len(os.sched_getaffinity(0)))
        self.max_sessions = max_sessions
        self._preload = tuple(preload)
        self._tiers = [tier] if tier else [each for each in TIERS if each != "unsafe" or allow_unsafe]
        if "unsafe" in self._tiers and not allow_unsafe:
            raise SandboxError("tier='unsafe' isolates nothing: it needs allow_unsafe=True beside it")
        self._nursery: NurseryClient | None = None
        self._starting = asyncio.Lock()

    def slot_key(self, limits: Limits) -> Hashable:
        """Any slot serves any limits: they are set a run."""
        return None

    async def start(self, limits: Limits) -> Transport:
        """Fork a slot."""
        async with self._starting:
            nursery = await self._alive_nursery()
        return await nursery.start_slot()

    async def isolation(self) -> Isolation:
        """The strongest tier in which a slot comes up."""
        async with self._starting:
            nursery = await self._alive_nursery()
        return describe(nursery.tier, cgroup=nursery.cgroup)

    async def close(self) -> None:
        """End the nursery."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            await nursery.close()

    async def _alive_nursery(self) -> NurseryClient:
        if self._nursery is not None and self._nursery.alive:
            return self._nursery
        if sys.platform != "linux":
            raise SandboxRefused(f"the local back end needs Linux, not {sys.platform}: use docker or e2b")
        refused = []
        for tier in self._tiers:
            nursery = await NurseryClient.launch(tier, self._preload)
            try:
                await nursery.try_a_slot()
            except InfrastructureFailure as error:
                refused.append(f"{tier}: {error}")
                await nursery.close()
                continue
            except BaseException:
                await nursery.close()
                raise
            self._tiers = [tier]
            self._nursery = nursery
            return nursery
        raise SandboxRefused(
            f"this machine isolates nothing here ({'; '.join(refused)}). Use the docker or e2b back end, or "
            "allow_unsafe=True to run programs with limits on time and memory alone"
        )
