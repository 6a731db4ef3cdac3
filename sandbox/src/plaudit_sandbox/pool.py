"""The agents of one back end: started when needed, kept warm, capped, replaced when anything is wrong with them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from typing import Any

from plaudit_sandbox.errors import InfrastructureFailure
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.protocol import Backend
from plaudit_sandbox.request import Request
from plaudit_sandbox.result import Result
from plaudit_sandbox.slot import Slot, SlotDied

_FIRST_PAUSE_S = 0.05


class Pool:
    """Lives on the engine's loop. `users` counts the sandboxes that share it."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.users = 0
        self._idle: list[Slot] = []
        self._busy: set[Slot] = set()
        self._runs = asyncio.Semaphore(backend.max_slots)
        self._sessions = asyncio.Semaphore(backend.max_sessions)
        self._closing: set[asyncio.Task[None]] = set()

    async def run(self, request: Request, limits: Limits, *, retries: int) -> Result:
        """Run once on a free agent; after an infrastructure failure again on a fresh one, up to `retries` times.

        A program that takes down one agent and then a fresh one is the program's failure, not the infrastructure's:
        "killed".
        """
        began = time.monotonic()
        died_before, attempt = False, 0
        while True:
            try:
                async with self.slot(limits, fresh=attempt > 0) as slot:
                    queue_s = time.monotonic() - began
                    result = await slot.run(request)
                return replace(result, queue_s=queue_s)
            except SlotDied as died:
                if died.over_memory or died_before:
                    return lost(died, wall_s=time.monotonic() - began)
                died_before = True
            except InfrastructureFailure:
                if attempt >= retries:
                    raise
            await asyncio.sleep(_FIRST_PAUSE_S * 2**attempt)
            attempt += 1

    @contextlib.asynccontextmanager
    async def slot(self, limits: Limits, *, session: bool = False, fresh: bool = False) -> AsyncIterator[Slot]:
        """An agent for `limits` that nobody else uses meanwhile; waits its turn. fresh: one that served nobody yet."""
        async with self._sessions if session else self._runs:
            slot = await self._take(limits, session=session, fresh=fresh)
            try:
                yield slot
            finally:
                self._give(slot)

    async def close(self) -> None:
        """End every agent, and what they share."""
        for slot in [*self._idle, *self._busy]:
            self._discard(slot)
        self._idle.clear()
        while self._closing:
            await asyncio.wait(self._closing)
        await self.backend.close()

    async def _take(self, limits: Limits, *, session: bool, fresh: bool) -> Slot:
        key = self.backend.slot_key(limits)
        for position in range(len(self._idle) - 1, -1, -1):
            if self._idle[position].key == key and not fresh:
                slot = self._idle.pop(position)
                break
        else:
            if not session and self._idle and len(self._idle) + len(self._busy) >= self.backend.max_slots:
                self._discard(self._idle.pop(0))
            slot = await self._start(limits, key)
        self._busy.add(slot)
        return slot

    async def _start(self, limits: Limits, key: object) -> Slot:
        slot = Slot(await self.backend.start(limits), key)
        try:
            await slot.greet()
        except BaseException:
            self._discard(slot)
            raise
        return slot

    def _give(self, slot: Slot) -> None:
        self._busy.discard(slot)
        recycle_after = self.backend.recycle_after
        if slot.broken or (recycle_after is not None and slot.runs >= recycle_after):
            self._discard(slot)
        else:
            self._idle.append(slot)

    def _discard(self, slot: Slot) -> None:
        slot.broken = True
        self._spawn(slot.close())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def lost(died: SlotDied, *, wall_s: float) -> Result:
    """The result of a program that took its agent down."""
    status, detail = ("memory", "over the memory limit") if died.over_memory else ("killed", "took its sandbox down")
    return Result(status, None, b"", b"", wall_s, 0.0, 0.0, detail)  # type: ignore[arg-type]
