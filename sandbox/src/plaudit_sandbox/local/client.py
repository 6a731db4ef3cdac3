"""The client's side of a nursery: starting it, asking it for slots, and the sockets to them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from plaudit_sandbox.errors import InfrastructureFailure, SandboxError
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.local.mounts import visible_paths
from plaudit_sandbox.protocol import Transport
from plaudit_sandbox.request import make_request
from plaudit_sandbox.slot import Slot

_START_TIMEOUT_S = 60.0
_END_TIMEOUT_S = 20.0
_BOOT = """\
import sys, json
sys.path.append(sys.argv[1])
from plaudit_sandbox.local.nursery import main
sys.path.remove(sys.argv[1])
import site
site.setquit()
site.setcopyright()
site.sethelper()
main(**json.loads(sys.argv[2]))
"""


class NurseryClient:
    """A nursery process and the conversation with it."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, tier: str) -> None:
        self.tier = tier
        self.cgroup = False
        self._process, self._control = process, control
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listener: asyncio.Task[None] | None = None

    @classmethod
    async def launch(cls, tier: str, preload: Sequence[str]) -> NurseryClient:
        """Start a nursery. Raises SandboxError if a module cannot be preloaded."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        with theirs:
            settings = {
                "descriptor": theirs.fileno(),
                "tier": tier,
                "preload": list(preload),
                "packages": _packages(),
                "visible": visible_paths(),
            }
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BOOT, str(_source_folder()), json.dumps(settings)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=_nursery_environment(),
                cwd="/",
                start_new_session=True,
            )
        nursery = cls(process, ours, tier)
        try:
            ready = await asyncio.wait_for(nursery._hear(), _START_TIMEOUT_S)
        except (TimeoutError, InfrastructureFailure) as error:
            await nursery.close()
            raise InfrastructureFailure(f"the nursery of the local sandbox did not start: {error}") from error
        if ready["op"] != "ready":
            await nursery.close()
            raise SandboxError(ready["error"])
        nursery.cgroup = ready["cgroup"]
        nursery._listener = asyncio.ensure_future(nursery._listen())
        return nursery

    @property
    def alive(self) -> bool:
        """Whether it can be asked for slots."""
        return self._listener is not None and not self._listener.done()

    async def start_slot(self) -> Transport:
        """Raises InfrastructureFailure."""
        number = next(self._numbers)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            try:
                await self._ask({"op": "start", "id": number}, theirs)
            except BaseException:
                ours.close()
                raise
        return _SlotTransport(self, number, ours)

    async def end_slot(self, number: int) -> int:
        """Kill a slot; returns its kills for want of memory. 0 where the nursery is gone, and all slots with it."""
        try:
            answer = await self._ask({"op": "end", "id": number}, None)
        except InfrastructureFailure:
            return 0
        return int(answer["kills"])

    async def try_a_slot(self) -> None:
        """Raises InfrastructureFailure if this tier cannot be had."""
        slot = Slot(await self.start_slot(), None)
        try:
            await slot.greet()
            result = await slot.run(make_request("pass", Limits()))
            if not result.ok:
                raise InfrastructureFailure(f"an empty program ended with {result.status} ({result.detail})")
        finally:
            await slot.close()

    async def close(self) -> None:
        """End it, which ends its slots, and wait until it is gone."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener])
        self._control.close()
        deadline = time.monotonic() + _END_TIMEOUT_S
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                self._process.kill()  # its slots end with it
            await asyncio.sleep(0.005)

    async def _ask(self, message: dict[str, Any], companion: socket.socket | None) -> dict[str, Any]:
        future = asyncio.get_running_loop().create_future()
        self._waiting[message["id"]] = future
        try:
            descriptors = [companion.fileno()] if companion is not None else []
            socket.send_fds(self._control, [json.dumps(message).encode()], descriptors)
            answer: dict[str, Any] = await asyncio.wait_for(asyncio.shield(future), _START_TIMEOUT_S)
        except (OSError, TimeoutError) as error:
            raise InfrastructureFailure(f"the nursery of the local sandbox does not answer: {error}") from error
        finally:
            self._waiting.pop(message["id"], None)
        if "error" in answer:
            raise InfrastructureFailure(answer["error"])
        return answer

    async def _hear(self) -> dict[str, Any]:
        data = await asyncio.get_running_loop().sock_recv(self._control, 65536)
        if not data:
            raise InfrastructureFailure("the nursery of the local sandbox ended")
        message: dict[str, Any] = json.loads(data)
        return message

    async def _listen(self) -> None:
        try:
            while True:
                message = await self._hear()
                future = self._waiting.get(message["id"])
                if future is not None and not future.done():
                    future.set_result(message)
        except (OSError, InfrastructureFailure) as error:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(InfrastructureFailure(str(error)))


class _SlotTransport:
    """The socket to a slot."""

    def __init__(self, nursery: NurseryClient, number: int, sock: socket.socket) -> None:
        self._nursery, self._number, self._sock = nursery, number, sock
        self._ended: asyncio.Future[int] | None = None

    async def send(self, data: bytes) -> None:
        """See `Transport.send`."""
        await asyncio.get_running_loop().sock_sendall(self._sock, data)

    async def receive(self) -> bytes:
        """See `Transport.receive`."""
        with contextlib.suppress(ConnectionResetError):
            return await asyncio.get_running_loop().sock_recv(self._sock, 1 << 18)
        return b""

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._end()
        self._sock.close()

    async def over_memory(self) -> bool:
        """See `Transport.over_memory`."""
        return await self._end() > 0

    async def _end(self) -> int:
        if self._ended is None:
            self._ended = asyncio.ensure_future(self._nursery.end_slot(self._number))
        return await asyncio.shield(self._ended)


def _source_folder() -> Path:
    spec = find_spec("plaudit_sandbox")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.parent


def _packages() -> list[str]:
    """Where the packages of this Python lie: without `site`, so that no .pth file runs or adds other folders."""
    return list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]))


def _nursery_environment() -> dict[str, str]:
    """What this Python needs to start and no more: the nursery's environment can be read by every program."""
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONHOME") if name in os.environ}
    fixed = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1"}
    return {**kept, **fixed, "TMPDIR": tempfile.gettempdir()}
