"""The byte stream to an agent: the attached stream of its container, in which the engine marks stdout and stderr."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import time
from typing import Any, Literal

from plaudit_sandbox.docker.connection import engine_errors
from plaudit_sandbox.docker.containers import remove
from plaudit_sandbox.docker.threads import in_thread
from plaudit_sandbox.errors import InfrastructureFailure

_log = logging.getLogger(__name__)
_HEADER = struct.Struct(">BxxxI")
_STDERR = 2
_READ_BYTES = 1 << 18
_KEPT_STDERR = 2000
_DEATH_TIMEOUT_S = 5.0
_SIGKILLED = "137"
Cause = Literal["memory", "outside", "itself"]


class Demultiplexer:
    """Takes the engine's frames (stream number, length, data) apart; keeps the end of stderr."""

    def __init__(self) -> None:
        self.stderr = b""
        self._pending = bytearray()

    def feed(self, data: bytes) -> bytes:
        """What `data` brings of stdout."""
        self._pending += data
        parts, offset = [], 0
        while len(self._pending) - offset >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._pending, offset)
            end = offset + _HEADER.size + length
            if len(self._pending) < end:
                break
            content = bytes(memoryview(self._pending)[offset + _HEADER.size : end])
            if stream == _STDERR:
                self.stderr = (self.stderr + content)[-_KEPT_STDERR:]
            else:
                parts.append(content)
            offset = end
        del self._pending[:offset]
        return b"".join(parts)


class ContainerTransport:
    """See `Transport`. raw: what the SDK's `attach_socket` gave."""

    def __init__(self, client: Any, identity: str, raw: Any) -> None:
        self._client, self._identity, self._raw = client, identity, raw
        self._sock = raw._sock
        self._sock.setblocking(False)
        self._streams = Demultiplexer()
        self._heard = False
        self._sent_at = time.time()
        self._cause: asyncio.Future[Cause] | None = None
        self._removal: asyncio.Future[None] | None = None

    async def send(self, data: bytes) -> None:
        """See `Transport.send`."""
        self._sent_at = time.time()
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def receive(self) -> bytes:
        """See `Transport.receive`. Raises InfrastructureFailure where no program can have ended the agent."""
        while data := await self._read():
            content = self._streams.feed(data)
            if content:
                self._heard = True
                return content
        cause = await self._why()
        said = self._streams.stderr.decode(errors="replace").strip()
        if not self._heard:
            raise InfrastructureFailure(f"no agent came up in the container: {said or 'it ended without a word'}")
        if said:
            _log.warning("the agent in container %s ended: %s", self._identity[:12], said)
        if cause == "outside":
            raise InfrastructureFailure("the container was ended from outside, or its Docker engine is gone")
        return b""

    async def close(self) -> None:
        """See `Transport.close`."""
        if self._removal is None:
            self._raw.close()
            self._removal = asyncio.ensure_future(in_thread(remove, self._client, self._identity))
        await asyncio.shield(self._removal)

    async def over_memory(self) -> bool:
        """See `Transport.over_memory`."""
        return await self._why() == "memory"

    async def _read(self) -> bytes:
        with contextlib.suppress(ConnectionResetError):
            return await asyncio.get_running_loop().sock_recv(self._sock, _READ_BYTES)
        return b""

    async def _why(self) -> Cause:
        if self._cause is None:
            self._cause = asyncio.ensure_future(in_thread(self._look_up_cause))
        return await asyncio.shield(self._cause)

    def _look_up_cause(self) -> Cause:
        """From the engine's events since the last request; the container itself is removed as soon as it ends."""
        deadline = time.monotonic() + _DEATH_TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                events = list(
                    self._client.api.events(
                        since=f"{self._sent_at - 1:.6f}",
                        until=f"{time.time():.6f}",
                        filters={"container": self._identity, "event": ["oom", "die"]},
                        decode=True,
                    )
                )
            except engine_errors():
                return "outside"
            if any(event["Action"] == "oom" for event in events):
                return "memory"
            for event in events:
                # No program can send its PID 1 a SIGKILL.
                return "outside" if event["Actor"]["Attributes"].get("exitCode") == _SIGKILLED else "itself"
            time.sleep(0.05)
        return "outside"
