"""A sandbox of the stand-in: its processes, and their streams as envd sends them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web


@dataclass
class Box:
    """A sandbox: its folder, its processes by pid, and when it ends by itself."""

    name: str
    folder: Path
    ends_at: float
    ended: bool = False
    processes: dict[int, asyncio.subprocess.Process] = field(default_factory=dict)


async def stream(
    request: web.Request, response: web.StreamResponse, box: Box, process: asyncio.subprocess.Process
) -> None:
    await response.prepare(request)
    await response.write(frame({"event": {"start": {"pid": process.pid}}}))

    async def pump(stream: asyncio.StreamReader | None, name: str) -> None:
        assert stream is not None
        while data := await stream.read(1 << 16):
            await response.write(frame({"event": {"data": {name: base64.b64encode(data).decode()}}}))

    limit_ms = request.headers.get("Connect-Timeout-Ms")
    try:
        async with asyncio.timeout(int(limit_ms) / 1000 if limit_ms else None):
            await asyncio.gather(pump(process.stdout, "stdout"), pump(process.stderr, "stderr"))
            code = await process.wait()
    except TimeoutError:
        last = {"error": {"code": "deadline_exceeded", "message": "too late"}}
    else:
        last = {}
        if box.ended:
            last = {"error": {"code": "unavailable", "message": f"The sandbox {box.name} was not found"}}
        else:
            ended = {"exited": code >= 0, "exitCode": max(code, -1), "status": f"exit status {code}"}
            await response.write(frame({"event": {"end": ended}}))
    await response.write(frame(last, last=True))


def frame(message: dict[str, Any], *, last: bool = False) -> bytes:
    data = json.dumps(message).encode()
    return struct.pack(">BI", 2 if last else 0, len(data)) + data


def kill(process: asyncio.subprocess.Process, number: int = signal.SIGKILL) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
