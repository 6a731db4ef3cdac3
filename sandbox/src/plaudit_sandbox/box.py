"""`Sandbox` and `Session` over a pool."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

from plaudit_sandbox.engine import Engine
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.pool import Pool, lost
from plaudit_sandbox.protocol import Data, HostCall, Program, Session
from plaudit_sandbox.request import Request, head_of, make_request
from plaudit_sandbox.result import Result
from plaudit_sandbox.slot import Slot, SlotDied


class Box:
    """A sandbox. acquire: gives the shared pool, starting it at first. release: to be called once, at the end."""

    def __init__(
        self,
        engine: Engine,
        acquire: Callable[[], Awaitable[Pool]],
        release: Callable[[Pool], Awaitable[None]],
        limits: Limits,
        retries: int,
    ) -> None:
        self.limits = limits
        self._engine, self._retries = engine, retries
        self._acquire, self._release = acquire, release
        self._pool: Pool | None = None
        self._process = os.getpid()
        self._closed = False
        self._work: set[asyncio.Task[Any]] = set()
        self._starting = _EngineLock()

    async def run(
        self,
        program: str | Program,
        *,
        stdin: Data = b"",
        files: Mapping[str, Data] | None = None,
        collect: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_call: HostCall | None = None,
    ) -> Result:
        """See `Runner.run`."""
        request = make_request(
            program,
            self.limits,
            stdin=stdin,
            files=files,
            collect=collect,
            env=env,
            timeout_s=timeout_s,
            on_call=_on_this_loop(on_call),
        )
        return await self._engine.call(self._track(self._run(request)))

    def session(self) -> AbstractAsyncContextManager[Session]:
        """See `Sandbox.session`."""
        return BoxSession(self)

    async def start(self) -> None:
        """Start the pool now instead of at the first run. Raises SandboxRefused where nothing can be isolated."""
        await self._engine.call(self._start())

    async def close(self) -> None:
        """See `Sandbox.close`."""
        await self._engine.call(self._close())

    async def _start(self) -> Pool:
        async with self._starting.get():
            if self._closed:
                raise SandboxError("this sandbox is closed; open another")
            if self._pool is None or self._process != os.getpid():
                self._pool, self._process = await self._acquire(), os.getpid()
            return self._pool

    async def _run(self, request: Request) -> Result:
        pool = await self._start()
        return await pool.run(request, self.limits, retries=self._retries)

    async def _track(self, work: Coroutine[Any, Any, Result]) -> Result:
        task = asyncio.current_task()
        assert task is not None
        self._work.add(task)
        try:
            return await work
        finally:
            self._work.discard(task)

    async def _close(self) -> None:
        self._closed = True
        for task in self._work:
            task.cancel()
        if self._work:
            await asyncio.wait(set(self._work))
        async with self._starting.get():
            pool, self._pool = self._pool, None
        if pool is not None:
            await self._release(pool)


class BoxSession:
    """A session of a box; holds one agent while it is open."""

    def __init__(self, box: Box) -> None:
        self._box = box
        self._held = AsyncExitStack()
        self._slot: Slot | None = None
        self._turn = _EngineLock()
        self._closed = False

    async def __aenter__(self) -> BoxSession:
        await self._box._engine.call(self._opened())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def run(
        self,
        program: str | Program,
        *,
        stdin: Data = b"",
        files: Mapping[str, Data] | None = None,
        collect: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_call: HostCall | None = None,
    ) -> Result:
        """See `Runner.run`. Runs of one session take turns."""
        request = make_request(
            program,
            self._box.limits,
            stdin=stdin,
            files=files,
            collect=collect,
            env=env,
            timeout_s=timeout_s,
            on_call=_on_this_loop(on_call),
        )
        cell = replace(request, head={**request.head, "op": "cell"})
        return await self._box._engine.call(self._box._track(self._run(cell)))

    async def close(self) -> None:
        """See `Session.close`."""
        await self._box._engine.call(self._close())

    async def _opened(self) -> Slot:
        if self._closed:
            raise SandboxError("this session is closed; open another")
        if self._slot is None:
            self._slot = await self._take_slot(await self._box._start())
        return self._slot

    async def _take_slot(self, pool: Pool) -> Slot:
        """An agent with a session in it; after an infrastructure failure a fresh one, as often as runs are retried."""
        attempt = 0
        while True:
            agent = pool.slot(self._box.limits, session=True, fresh=attempt > 0)
            try:
                slot = await self._held.enter_async_context(agent)
                await slot.open(head_of("open", self._box.limits))
                return slot
            except InfrastructureFailure:
                await self._held.aclose()
                if attempt >= self._box._retries:
                    raise
            attempt += 1

    async def _run(self, cell: Request) -> Result:
        asked = time.monotonic()
        async with self._turn.get():
            slot = await self._opened()
            began = time.monotonic()
            try:
                return replace(await slot.run(cell), queue_s=began - asked)
            except SlotDied as died:
                await self._drop()
                result = lost(died, wall_s=time.monotonic() - began)
                return replace(result, detail=f"{result.detail}; the session's names and files are lost")
            except BaseException:
                await self._drop_if_broken(slot)
                raise

    async def _drop_if_broken(self, slot: Slot) -> None:
        if slot.broken:
            await self._drop()

    async def _drop(self) -> None:
        self._slot = None
        await self._held.aclose()

    async def _close(self) -> None:
        self._closed = True
        slot = self._slot
        if slot is not None and self._turn.get().locked():
            slot.broken = True  # a run is under way: only the end of the agent ends it at once
        elif slot is not None:
            await slot.end()
        await self._drop()


class _EngineLock:
    """An asyncio.Lock that is made on the loop where it is used."""

    def __init__(self) -> None:
        self._lock: asyncio.Lock | None = None

    def get(self) -> asyncio.Lock:
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock


def _on_this_loop(on_call: HostCall | None) -> HostCall | None:
    """The engine's loop hears a program's calls; they are answered on the loop of whoever asked for the run."""
    if on_call is None:
        return None
    loop = asyncio.get_running_loop()

    async def forward(data: bytes) -> bytes:
        async def answer() -> bytes:
            return await on_call(data)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(answer(), loop))

    return forward
