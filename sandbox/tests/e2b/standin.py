"""A stand-in for the E2B cloud: what the unmodified SDK asks of it, on loopback. It isolates nothing.

Each sandbox is a folder; its commands are processes of this machine in it. `python standin.py` prints its port and the
key that it accepts, and serves until its stdin closes.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from standin_box import Box, kill, stream

KEY = "e2b_0123456789abcdef0123456789abcdef01234567"
_SIGNALS = {"SIGNAL_SIGKILL": signal.SIGKILL, "SIGNAL_SIGTERM": signal.SIGTERM}


@dataclass
class Cloud:
    """The account. refuse: HTTP statuses with which the next requests to create are answered. path: PATH of commands.

    stdin: whether commands may have one. most: how many sandboxes may live at once.
    """

    most: int = 1000
    path: str = "/usr/local/bin:/usr/bin:/bin"
    stdin: bool = True
    profile: str = ""
    refuse: list[int] = field(default_factory=list)
    refuse_input: list[int] = field(default_factory=list)
    boxes: dict[str, Box] = field(default_factory=dict)
    created_at: list[float] = field(default_factory=list)
    extended: list[str] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    most_alive: int = 0
    loop: asyncio.AbstractEventLoop | None = None

    def stop(self, name: str) -> None:
        """`end`, from another thread; returns when it is over."""
        assert self.loop is not None

        async def end() -> None:
            self.end(name)

        asyncio.run_coroutine_threadsafe(end(), self.loop).result(10)

    def end(self, name: str) -> None:
        """End a sandbox as a kill, or its time, would."""
        box = self.boxes.pop(name)
        box.ended = True
        for process in list(box.processes.values()):
            kill(process)
        shutil.rmtree(box.folder, ignore_errors=True)

    def application(self) -> web.Application:
        """Its routes; control plane and sandboxes on one port."""
        app = web.Application(middlewares=[self._authorize], client_max_size=1 << 28)
        app.add_routes(
            [
                web.post("/v2/sandboxes", self._create),
                web.get("/v2/sandboxes", self._list),
                web.delete("/sandboxes/{name}", self._delete),
                web.post("/sandboxes/{name}/timeout", self._extend),
                web.get("/health", self._health),
                web.post("/process.Process/Start", self._start),
                web.post("/process.Process/SendInput", self._send_input),
                web.post("/process.Process/SendSignal", self._send_signal),
                web.post("/files", self._write_file),
                web.get("/files", self._read_file),
            ]
        )
        return app

    @web.middleware
    async def _authorize(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if "sandboxes" in request.path and request.headers.get("X-API-KEY") != KEY:
            return web.json_response(
                {"code": 401, "message": f"no such key: {request.headers.get('X-API-KEY')}"}, status=401
            )
        return await handler(request)

    async def _create(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.created_at.append(time.monotonic())
        if self.refuse:
            status = self.refuse.pop(0)
            return web.json_response({"code": status, "message": "not now"}, status=status)
        if len(self.boxes) >= self.most:
            return web.json_response({"code": 429, "message": "too many sandboxes"}, status=429)
        name = f"i{uuid.uuid4().hex[:19]}"
        folder = Path(tempfile.mkdtemp(prefix="standin-"))
        folder.chmod(0o755)
        if self.profile:
            (folder / ".profile").write_text(self.profile)
        self.boxes[name] = Box(name, folder, time.monotonic() + asked["timeout"])
        self.asked.append(asked)
        self.most_alive = max(self.most_alive, len(self.boxes))
        answer = {"templateID": asked["templateID"], "sandboxID": name, "clientID": "x", "envdVersion": "0.6.7"}
        return web.json_response({**answer, "envdAccessToken": f"token-{name}", "domain": None}, status=201)

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response([])

    async def _delete(self, request: web.Request) -> web.Response:
        if request.match_info["name"] not in self.boxes:
            return web.json_response({"code": 404, "message": "not found"}, status=404)
        self.end(request.match_info["name"])
        return web.Response(status=204)

    async def _extend(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.boxes:
            return web.json_response({"code": 404, "message": "not found"}, status=404)
        self.boxes[name].ends_at = time.monotonic() + (await request.json())["timeout"]
        self.extended.append(name)
        return web.Response(status=204)

    async def _health(self, request: web.Request) -> web.Response:
        self._box(request)
        return web.Response(status=204)

    def _box(self, request: web.Request) -> Box:
        name = request.headers.get("E2b-Sandbox-Id", "")
        if name in self.boxes and time.monotonic() > self.boxes[name].ends_at:
            self.end(name)
        if name not in self.boxes:
            gone = {"message": f"The sandbox {name} was not found", "code": 502, "sandboxId": name}
            raise web.HTTPBadGateway(text=json.dumps(gone), content_type="application/json")
        return self.boxes[name]

    async def _start(self, request: web.Request) -> web.StreamResponse:
        box = self._box(request)
        body = await request.read()
        asked = json.loads(body[5:])
        if asked.get("stdin") and not self.stdin:
            return web.json_response({"code": "unimplemented", "message": "no stdin here"}, status=501)
        command = asked["process"]
        process = await asyncio.create_subprocess_exec(
            command["cmd"],
            *command.get("args", []),
            cwd=command.get("cwd") or box.folder,
            env={"PATH": self.path, "HOME": str(box.folder), **command.get("envs", {})},
            stdin=asyncio.subprocess.PIPE if asked.get("stdin") else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        box.processes[process.pid] = process
        response = web.StreamResponse(headers={"Content-Type": "application/connect+json"})
        try:
            with contextlib.suppress(ConnectionError):
                await stream(request, response, box, process)
            return response
        finally:
            kill(process)
            await process.wait()
            box.processes.pop(process.pid, None)

    async def _send_input(self, request: web.Request) -> web.Response:
        if self.refuse_input:
            status = self.refuse_input.pop(0)
            return web.json_response({"code": "resource_exhausted", "message": "slow down"}, status=status)
        asked = await request.json()
        process = self._box(request).processes.get(int(asked["process"]["pid"]))
        if process is None or process.stdin is None or process.returncode is not None:
            return web.json_response({"code": "not_found", "message": "no such process"}, status=404)
        with contextlib.suppress(ConnectionError):
            process.stdin.write(base64.b64decode(asked["input"]["stdin"]))
            await process.stdin.drain()
        return web.json_response({})

    async def _send_signal(self, request: web.Request) -> web.Response:
        asked = await request.json()
        process = self._box(request).processes.get(int(asked["process"]["pid"]))
        if process is None:
            return web.json_response({"code": "not_found", "message": "no such process"}, status=404)
        kill(process, _SIGNALS[asked["signal"]])
        return web.json_response({})

    async def _write_file(self, request: web.Request) -> web.Response:
        box, written = self._box(request), []
        if request.content_type.startswith("multipart/"):
            async for part in await request.multipart():
                name = request.query.get("path") or part.filename  # type: ignore[union-attr]
                written.append((name, await part.read()))  # type: ignore[union-attr]
        else:
            written.append((request.query["path"], await request.read()))
        for name, data in written:
            path = box.folder / str(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return web.json_response([{"name": Path(str(n)).name, "type": "file", "path": n} for n, _ in written])

    async def _read_file(self, request: web.Request) -> web.Response:
        path = self._box(request).folder / request.query["path"]
        if not path.is_file():
            return web.json_response({"code": 404, "message": "not found"}, status=404)
        return web.Response(body=path.read_bytes())


async def serve(cloud: Cloud) -> tuple[web.AppRunner, int]:
    """Start on a free port of loopback; gives what ends it, and the port."""
    cloud.loop = asyncio.get_running_loop()
    runner = web.AppRunner(cloud.application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    return runner, runner.addresses[0][1]


async def main() -> None:
    """Serve until stdin closes."""
    cloud = Cloud()
    runner, port = await serve(cloud)
    print(port, KEY, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for name in list(cloud.boxes):
        cloud.end(name)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
