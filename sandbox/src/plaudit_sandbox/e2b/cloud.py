"""The account in the cloud: sandboxes created no faster and no more than it allows, kept alive, killed at the end."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Any

from plaudit_sandbox.e2b.sdk import load_sdk, named, trouble
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError

log = logging.getLogger(__name__)
_CREATE_TRIES = 6
_KILL_TRIES = 3
_LONGEST_PAUSE_S = 30.0


class Cloud:
    """Sandboxes of one account. Lives on one event loop.

    template: which to start; None for the SDK's default. max_sandboxes: how many at once. creates_per_s: how many may
    be started a second. lifetime_s: how long the cloud keeps a sandbox of which it has not heard.
    """

    def __init__(self, template: str | None, *, max_sandboxes: int, creates_per_s: float, lifetime_s: int) -> None:
        self._template, self._creates_per_s, self._lifetime_s = template, creates_per_s, lifetime_s
        self._permits = asyncio.Semaphore(max_sandboxes)
        self._next_create_at = 0.0
        self._alive: dict[str, Any] = {}
        self._work: set[asyncio.Task[Any]] = set()
        self._keeper: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Ask the account for its sandboxes. Raises SandboxRefused where there is no SDK or no key that is accepted."""
        sdk = await load_sdk()
        try:
            await sdk.AsyncSandbox.list(limit=1, request_timeout=20).next_items()
        except Exception as error:
            raise trouble(error) from None

    async def create(self) -> Any:
        """A new sandbox, for `kill`. Waits for its turn.

        Raises InfrastructureFailure (retried) or SandboxRefused. Cancelled, it kills what is created meanwhile.
        """
        await self._permits.acquire()
        task = asyncio.ensure_future(self._create())
        self._watch(task)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._watch(asyncio.ensure_future(self._abandon(task)))
            raise

    async def kill(self, sandbox: Any) -> None:
        """End a sandbox and all in it. One that does not answer ends by itself after its lifetime."""
        if self._alive.pop(sandbox.sandbox_id, None) is None:
            return
        try:
            for attempt in range(_KILL_TRIES):
                try:
                    await sandbox.kill(request_timeout=20)
                    return
                except Exception as error:
                    failure = trouble(error)
                    await asyncio.sleep(2.0**attempt)
            log.warning("sandbox %s was not ended: %s", sandbox.sandbox_id, failure)
        finally:
            self._permits.release()

    async def close(self) -> None:
        """End every sandbox that was created here."""
        while self._work:
            await asyncio.wait(set(self._work))
        await asyncio.gather(*(self.kill(sandbox) for sandbox in list(self._alive.values())))
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _create(self) -> Any:
        try:
            sandbox = await self._create_patiently()
        except BaseException:
            self._permits.release()
            raise
        self._alive[sandbox.sandbox_id] = sandbox
        if self._keeper is None:
            self._keeper = asyncio.ensure_future(self._keep_alive())
        return sandbox

    async def _create_patiently(self) -> Any:
        sdk, key = await load_sdk(), str(uuid.uuid4())
        pause_s = 1.0 / self._creates_per_s
        for _ in range(_CREATE_TRIES):
            await self._turn()
            try:
                return await sdk.AsyncSandbox.create(
                    template=self._template,
                    timeout=self._lifetime_s,
                    metadata={"started-by": "plaudit-sandbox"},
                    allow_internet_access=False,
                    idempotency_key=key,
                    retries=0,  # the SDK's own would not wait for the others' turns
                )
            except Exception as error:
                failure = trouble(error)
                if not named(error, "RateLimitException", "ServiceBusyException"):
                    raise failure from None
            self._hold_off(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        raise InfrastructureFailure(
            f"E2B turned down {_CREATE_TRIES} attempts to start a sandbox ({failure}); "
            "if it goes on, lower max_sandboxes or creates_per_s to what the account allows"
        )

    async def _turn(self) -> None:
        now = asyncio.get_running_loop().time()
        at = max(now, self._next_create_at)
        self._next_create_at = at + 1.0 / self._creates_per_s
        await asyncio.sleep(at - now)

    def _hold_off(self, pause_s: float) -> None:
        """Nobody starts a sandbox before the pause is over: the limit is the account's."""
        self._next_create_at = max(self._next_create_at, asyncio.get_running_loop().time() + pause_s)

    async def _abandon(self, task: asyncio.Task[Any]) -> None:
        try:
            sandbox = await task
        except SandboxError:
            return
        await self.kill(sandbox)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self._lifetime_s / 3)
            await asyncio.gather(*(self._extend(sandbox) for sandbox in list(self._alive.values())))

    async def _extend(self, sandbox: Any) -> None:
        try:
            await sandbox.set_timeout(self._lifetime_s, request_timeout=20)
        except Exception as error:  # it is lost, or over what the account allows: the next run in it finds out
            log.debug("sandbox %s is not kept alive: %s", sandbox.sandbox_id, trouble(error))

    def _watch(self, task: asyncio.Task[Any]) -> None:
        self._work.add(task)
        task.add_done_callback(self._work.discard)
