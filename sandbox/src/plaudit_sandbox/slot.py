"""One agent as its client sees it: frames out, frames in, one run or session at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from plaudit_sandbox.agent.frames import LENGTHS, pack_head, unpack_head, unpack_lengths
from plaudit_sandbox.agent.serve import VERSION
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError
from plaudit_sandbox.protocol import HostCall, Transport
from plaudit_sandbox.request import Request
from plaudit_sandbox.result import Result

Frame = tuple[dict[str, Any], bytes]
_CANCEL_TIMEOUT_S = 10.0
_HELLO_TIMEOUT_S = 60.0


class SlotDied(InfrastructureFailure):
    """The agent went away while a program ran. over_memory: the kernel killed it for want of memory."""

    def __init__(self, message: str, *, over_memory: bool) -> None:
        super().__init__(message)
        self.over_memory = over_memory


class Slot:
    """A running agent. broken: it failed, or is in a state that is not known; it is to be closed and not used again."""

    def __init__(self, transport: Transport, key: object) -> None:
        self.key = key
        self.runs = 0
        self.broken = False
        self._transport = transport
        self._buffer = bytearray()

    async def greet(self) -> None:
        """Wait for the agent's hello. Raises InfrastructureFailure if it does not come or is another version's."""
        head, _ = await self._within(_HELLO_TIMEOUT_S, "did not start")
        if head["op"] == "broken":
            self.broken = True
            raise InfrastructureFailure(str(head.get("error")))
        if head["op"] != "hello" or head.get("version") != VERSION:
            self.broken = True
            raise InfrastructureFailure(f"the agent said {head!r}; expected the hello of version {VERSION}")

    async def run(self, request: Request) -> Result:
        """Send a run, or a session's cell, and wait for its result. A cancelled run is over when this returns."""
        self.runs += 1
        try:
            async with asyncio.timeout(request.hard_timeout_s):
                await self._send(request.head, request.body)
                return await self._answer(request.on_call)
        except asyncio.CancelledError:
            await self._cancel()
            raise
        except TimeoutError:
            self.broken = True
            raise InfrastructureFailure(f"the agent did not answer within {request.hard_timeout_s:g} s") from None
        except SandboxError:
            raise
        except Exception:  # from on_call: the program still waits for its answer
            self.broken = True
            raise

    async def open(self, head: Mapping[str, Any]) -> None:
        """Start a session, which lasts until `end`."""
        await self._send(head)
        answer, _ = await self._within(_HELLO_TIMEOUT_S, "did not open a session")
        if answer["op"] != "opened":
            raise InfrastructureFailure(f"no session: {answer.get('error', answer)}")

    async def end(self) -> None:
        """End a session; the agent kills and wipes what is left of it before it serves anything else."""
        with contextlib.suppress(InfrastructureFailure):
            await self._send({"op": "end"})

    async def close(self) -> None:
        """Kill the agent and all that it runs."""
        self.broken = True
        await self._transport.close()

    async def _answer(self, on_call: HostCall | None) -> Result:
        while True:
            head, body = await self._receive()
            if head["op"] == "result":
                return _result(head, body)
            if head["op"] == "broken":
                error = str(head.get("error"))
                if error.startswith("MissingToolchain: "):
                    raise SandboxError(error.removeprefix("MissingToolchain: "))
                self.broken = True
                raise InfrastructureFailure(error)
            if head["op"] == "call":
                await self._reply(on_call, body)

    async def _reply(self, on_call: HostCall | None, body: bytes) -> None:
        if on_call is None:
            await self._send({"op": "refuse"}, b"this run takes no calls; pass on_call= to run()")
            return
        await self._send({"op": "reply"}, await on_call(body))

    async def _cancel(self) -> None:
        """Stop the run and wait for its end, so that the slot can be used again; otherwise it is broken."""
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT_S):
                await self._send({"op": "cancel"})
                await self._answer(None)
        except (Exception, asyncio.CancelledError):
            self.broken = True

    async def _within(self, timeout_s: float, failure: str) -> Frame:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._receive()
        except TimeoutError:
            self.broken = True
            raise InfrastructureFailure(f"the agent {failure} within {timeout_s:g} s") from None

    async def _send(self, head: Mapping[str, Any], body: bytes = b"") -> None:
        try:
            await self._transport.send(pack_head(dict(head), len(body)) + body)
        except InfrastructureFailure:
            self.broken = True
            raise
        except OSError as error:
            self.broken = True
            raise SlotDied(f"the agent is gone ({error})", over_memory=await self._transport.over_memory()) from error

    async def _receive(self) -> Frame:
        """The next frame. Cancelling it loses nothing: a frame is taken when all of it is there."""
        while True:
            try:
                frame = self._take()
            except ValueError as error:
                self.broken = True
                raise InfrastructureFailure(f"the agent sent no frame: {error}") from error
            if frame is not None:
                return frame
            data = b""
            try:
                with contextlib.suppress(OSError):
                    data = await self._transport.receive()
            except InfrastructureFailure:
                self.broken = True
                raise
            if not data:
                self.broken = True
                raise SlotDied("the agent went away", over_memory=await self._transport.over_memory())
            self._buffer += data

    def _take(self) -> Frame | None:
        if len(self._buffer) < LENGTHS.size:
            return None
        head_length, body_length = unpack_lengths(self._buffer[: LENGTHS.size])
        body_at = LENGTHS.size + head_length
        if len(self._buffer) < body_at + body_length:
            return None
        head = unpack_head(self._buffer[LENGTHS.size : body_at])
        body = bytes(memoryview(self._buffer)[body_at : body_at + body_length])
        del self._buffer[: body_at + body_length]
        return head, body


def _result(head: Mapping[str, Any], body: bytes) -> Result:
    parts, offset = [], 0
    for length in head["lengths"]:
        parts.append(body[offset : offset + length])
        offset += length
    return Result(
        status=head["status"],
        exit_code=head["exit_code"],
        stdout=parts[0],
        stderr=parts[1],
        wall_s=head["wall_s"],
        cpu_s=head["cpu_s"],
        peak_memory_mb=head["peak_memory_mb"],
        detail=head["detail"],
        files=dict(zip(head["names"], parts[2:], strict=True)),
    )
