"""The `e2b` back end on the client's side: one agent in each sandbox, or one command where no agent runs."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Any

from plaudit_sandbox.e2b.agent import AgentTransport, AgentUnavailable
from plaudit_sandbox.e2b.cloud import Cloud
from plaudit_sandbox.e2b.command import CommandTransport
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.protocol import Isolation, Transport
from plaudit_sandbox.ranks import share_of_run

log = logging.getLogger(__name__)


class E2BBackend:
    """Programs in sandboxes of the E2B cloud. The API key comes from the environment variable E2B_API_KEY alone.

    max_sandboxes and creates_per_s: what the account allows (20 and 1 on the free tier, 100 and 5 on the next), shared
    by all ranks of a run (WORLD_SIZE). max_sessions: how many of the sandboxes sessions may hold; half by default.
    template: the sandbox template to start, the SDK's default by default; it should hold Python 3.10 or later.
    lifetime_s: seconds for which the cloud keeps a sandbox after this process was last heard of. recycle_after: runs
    after which a sandbox is replaced.
    """

    name = "e2b"

    def __init__(
        self,
        *,
        max_sandboxes: int = 20,
        creates_per_s: float = 1.0,
        max_sessions: int | None = None,
        template: str | None = None,
        lifetime_s: int = 300,
        recycle_after: int | None = 10_000,
    ) -> None:
        numbers = {"max_sandboxes": max_sandboxes, "creates_per_s": creates_per_s, "lifetime_s": lifetime_s}
        for option, value in numbers.items():
            if not value > 0:
                raise SandboxError(f"{option}={value!r}: expected a number above 0")
        mine = share_of_run(max_sandboxes)
        self.max_sessions = mine // 2 if max_sessions is None else max_sessions
        self.max_slots = mine - self.max_sessions
        if self.max_slots < 1 or self.max_sessions < 0:
            raise SandboxError(
                f"max_sandboxes={max_sandboxes!r}, max_sessions={max_sessions!r}: expected at least one sandbox for "
                f"runs besides those for sessions; this rank's share is {mine}"
            )
        self._recycle_after = recycle_after
        self._settings: dict[str, Any] = {
            "max_sandboxes": mine,
            "creates_per_s": creates_per_s * mine / max_sandboxes,
            "lifetime_s": lifetime_s,
        }
        self._template = template
        self._cloud: Cloud | None = None
        self._agents_start = False
        self._without_agent = ""

    @property
    def recycle_after(self) -> int | None:
        """See `Backend`. Without an agent nothing parts one run from the next but a sandbox of its own."""
        return 1 if self._without_agent else self._recycle_after

    def slot_key(self, limits: Limits) -> Hashable:
        """Any sandbox serves any limits: the agent sets them a run."""
        return None

    async def start(self, limits: Limits) -> Transport:
        """Start a sandbox and the agent in it."""
        cloud = self._alive_cloud()
        sandbox = await cloud.create()
        try:
            return await self._transport(cloud, sandbox)
        except BaseException:
            await cloud.kill(sandbox)
            raise

    async def isolation(self) -> Isolation:
        """What the cloud promises; asks it whether the key is accepted."""
        await self._alive_cloud().check()
        return Isolation(
            "e2b",
            "microvm",
            stops=(
                "reaching this machine: programs run in virtual machines of the E2B cloud, one for each run at a time",
                "network: no internet, and no sockets but unix ones",
                "traces between the runs that follow each other in a sandbox: a user of their own, processes and files "
                "gone after each, no other place to write where the template's kernel has mount namespaces or Landlock",
                "time, memory, processes, file sizes and output over their limits",
            ),
            does_not_stop=(
                "the cloud's operator from reading programs and their data",
                "a hole in the kernel of a sandbox: later runs in the same sandbox share it, until it is recycled",
                "a program that crashes its whole sandbox from abstaining, after the retries, instead of failing",
            ),
        )

    async def close(self) -> None:
        """Kill every sandbox."""
        cloud, self._cloud = self._cloud, None
        if cloud is not None:
            await cloud.close()

    async def _transport(self, cloud: Cloud, sandbox: Any) -> Transport:
        if self._without_agent:
            return CommandTransport(cloud, sandbox)
        agent = AgentTransport(cloud, sandbox)
        try:
            await agent.begin()
        except AgentUnavailable as error:
            await agent.leave()
            if self._agents_start:
                raise InfrastructureFailure(f"E2B: this time no agent started: {error}") from None
            self._without_agent = str(error)
            log.warning("no agent starts in E2B's sandboxes (%s): each run takes a new sandbox", error)
            return CommandTransport(cloud, sandbox)
        except BaseException:
            await agent.leave()
            raise
        self._agents_start = True
        return agent

    def _alive_cloud(self) -> Cloud:
        if self._cloud is None:
            self._cloud = Cloud(self._template, **self._settings)
        return self._cloud
