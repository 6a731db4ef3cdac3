"""The warm agent in a sandbox: bytes go in through SendInput, lines of base64 come back from stdout."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import secrets
import zlib
from typing import Any

from plaudit_sandbox.bundle import agent_source
from plaudit_sandbox.e2b.cloud import Cloud
from plaudit_sandbox.e2b.sdk import named, trouble
from plaudit_sandbox.errors import InfrastructureFailure, SandboxError

_START_TIMEOUT_S = 60.0
_REQUEST_TIMEOUT_S = 60.0
_CHUNK = 1 << 20
_SEND_TRIES = 5
_READ_ONLY = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc",
    "/opt",
    "/srv",
    "/home",
    "/app",
    "/nix/store",
)
# Namespaces of the agent's own where they are to be had: /tmp, /var/tmp and /dev/shm are the working directory, so that
# no place is left where one run could leave something for the next; the agent is the init of its processes, and its
# network has no address. Landlock, where the kernel has it, says much of it again.
_HIDE = (
    "mkdir -p .plaudit/tmp && chmod 755 .plaudit && mount --bind .plaudit/tmp /tmp"
    " && mount --bind .plaudit/tmp /var/tmp && mount --bind .plaudit/tmp /dev/shm"
)
_BOOT = """\
echo {marker}
hide='{hide}'
agent='exec python3 -I -c "import base64,os,zlib
source = zlib.decompress(base64.b64decode(b\\"{source}\\"))
exec(source.replace(b\\"{scratch}\\", os.environb[b\\"SCRATCH\\"]))"'
alone="unshare --mount --propagation private --ipc --net --pid --fork --kill-child --mount-proc"
if $alone sh -c "$hide" 2>/dev/null; then SCRATCH=/tmp exec $alone sh -c "$hide && $agent"; fi
export SCRATCH=/tmp/{marker}
eval "$agent"
"""
_SCRATCH = "/tmp/scratch-of-the-agent"


class AgentUnavailable(Exception):
    """The sandbox is well, but no agent runs in it; the text says why."""


class AgentTransport:
    """See `Transport`: one agent in a sandbox of its own, which ends with it."""

    def __init__(self, cloud: Cloud, sandbox: Any) -> None:
        self._cloud, self._sandbox = cloud, sandbox
        self._handle: Any = None
        self._marker = f"plaudit-agent-{secrets.token_hex(8)}"
        self._begun = False
        self._text: list[str] = []
        self._errors = ""
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._arrived = asyncio.Event()
        self._failure: SandboxError | None = None
        self._ended = False
        self._sending: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None

    async def begin(self) -> None:
        """Start the agent. Raises AgentUnavailable or InfrastructureFailure; the sandbox is left as it is."""
        await self._start()
        self._watcher = asyncio.ensure_future(self._wait_for_end())
        try:
            await asyncio.wait_for(self._arrived.wait(), _START_TIMEOUT_S)
        except TimeoutError:
            raise InfrastructureFailure(f"E2B: the agent said nothing within {_START_TIMEOUT_S:g} s") from None
        if self._ended or self._failure is not None:
            raise self._failure or AgentUnavailable(f"it did not start: {self._errors.strip()[-300:] or 'no message'}")
        try:  # nothing said, but it shows whether the agent can be spoken to
            await self._handle.send_stdin(b"", request_timeout=_REQUEST_TIMEOUT_S)
        except Exception as error:
            raise _unavailable_or_lost(error) from None

    async def _start(self) -> None:
        command = self._sandbox.commands.run(
            _boot(self._marker),
            background=True,
            stdin=True,
            user="root",
            timeout=0,
            on_stdout=self._hear,
            on_stderr=self._hear_errors,
            retain_output=False,
        )
        starting = asyncio.ensure_future(command)
        try:
            self._handle = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The SDK cannot be cancelled here without leaving a task behind that fails unheard.
            await asyncio.wait([starting])
            if starting.exception() is None:
                self._handle = starting.result()
            raise
        except Exception as error:
            raise _unavailable_or_lost(error) from None

    async def leave(self) -> None:
        """Forget the agent but keep the sandbox."""
        tasks = [task for task in (self._watcher, self._sending) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._handle is not None:
            with contextlib.suppress(Exception):
                await self._handle.disconnect()

    async def send(self, data: bytes) -> None:
        """See `Transport.send`. Raises InfrastructureFailure where the sandbox, not only the agent, is lost."""
        # Cancelled on the way, it is sent all the same: no frame can follow half a frame, not even one that cancels.
        self._sending = asyncio.ensure_future(self._send_after(self._sending, data))
        await asyncio.shield(self._sending)

    async def receive(self) -> bytes:
        """See `Transport.receive`. Raises InfrastructureFailure where the sandbox, not only the agent, is lost."""
        data = await self._inbox.get()
        if not data:
            self._inbox.put_nowait(b"")
            if self._failure is not None:
                raise self._failure
        return data

    async def close(self) -> None:
        """See `Transport.close`: the sandbox is killed, and with it all that it holds."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def over_memory(self) -> bool:
        """See `Transport.over_memory`: the cloud does not tell."""
        return False

    async def _close(self) -> None:
        await self.leave()
        await self._cloud.kill(self._sandbox)
        self._end(None)

    async def _send_after(self, earlier: asyncio.Task[None] | None, data: bytes) -> None:
        if earlier is not None:
            await asyncio.wait([earlier])
        if self._failure is not None:
            raise self._failure
        if self._ended or (earlier is not None and (earlier.cancelled() or earlier.exception() is not None)):
            raise ConnectionResetError("it ended, or was sent half a frame")
        for start in range(0, len(data), _CHUNK):
            await self._send_piece(data[start : start + _CHUNK])

    async def _send_piece(self, piece: bytes) -> None:
        for attempt in range(_SEND_TRIES):
            try:
                await self._handle.send_stdin(piece, request_timeout=_REQUEST_TIMEOUT_S)
                return
            except Exception as error:
                if named(error, "RateLimitException") and attempt + 1 < _SEND_TRIES:
                    await asyncio.sleep(0.2 * 2**attempt)
                elif named(error, "NotFoundException"):
                    raise ConnectionResetError("its process is gone") from None
                else:
                    raise _lost(error) from None

    def _hear(self, text: str) -> None:
        """Take a piece of stdout, of any length, and hand on the lines that are whole."""
        if "\n" not in text:
            self._text.append(text)
            return
        *lines, rest = "".join([*self._text, text]).split("\n")
        self._text = [rest]
        for line in lines:
            if not self._begun:  # whatever the template's profile prints comes before the marker
                self._begun = line.endswith(self._marker)
            elif self._failure is None:
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            data = base64.b64decode(line, validate=True)
        except binascii.Error:
            self._end(InfrastructureFailure(f"the agent's stdout carries what it did not write: {line[:80]!r}"))
            return
        if data:
            self._inbox.put_nowait(data)
            self._arrived.set()

    def _hear_errors(self, text: str) -> None:
        self._errors = (self._errors + text)[-2000:]

    def _end(self, failure: SandboxError | None) -> None:
        """The end of the stream; without a failure, the agent ended and its sandbox is well."""
        self._failure = self._failure or failure
        self._ended = True
        self._inbox.put_nowait(b"")
        self._arrived.set()

    async def _wait_for_end(self) -> None:
        failure: SandboxError | None = None
        try:
            await self._handle.wait()
        except Exception as error:
            if not named(error, "CommandExitException"):
                failure = _lost(error)
        self._end(failure)


def _lost(error: Exception) -> InfrastructureFailure:
    """A sandbox that was there is lost, whatever the reason: the program had no say in it."""
    return InfrastructureFailure(str(trouble(error)))


def _unavailable_or_lost(error: Exception) -> Exception:
    if named(error, "TimeoutException", "RateLimitException", "AuthenticationException", "ServiceBusyException"):
        return _lost(error)
    if named(error, "SandboxException"):
        return AgentUnavailable(str(trouble(error)))
    return _lost(error)


def _boot(marker: str) -> str:
    source = agent_source(scratch=_SCRATCH, read_only=_READ_ONLY, landlock=True, lines=True)
    packed = base64.b64encode(zlib.compress(source.encode())).decode()
    return _BOOT.format(marker=marker, hide=_HIDE, source=packed, scratch=_SCRATCH)
