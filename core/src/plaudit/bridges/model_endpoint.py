"""Policies behind an OpenAI-compatible address on loopback, for programs that know a model's server alone."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plaudit.errors import PlauditError, UsageError
from plaudit.scoring.web import WebLimits, json_object, web_app

from .episodes import EpisodeOver, Policy, Written

if TYPE_CHECKING:
    from aiohttp import web


@dataclass(frozen=True, slots=True)
class Seat:
    """A policy at an address. `over`: called when a turn is asked for that will not be written."""

    policy: Policy
    over: Callable[[], None]


@dataclass(slots=True, eq=False)
class ModelEndpoint:
    """Chat completions, streamed or not, for the policies that are seated. What is asked of sampling is not heard."""

    _seats: dict[str, Seat] = field(default_factory=dict)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The address while it is served on this loop."""
        from aiohttp import web

        app = web_app(WebLimits())
        app.router.add_post("/{seat}/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    @asynccontextmanager
    async def seated(self, policy: Policy, over: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
        """The path of a policy, which is its `base_url` below the address; it writes nothing more afterwards."""
        seat = secrets.token_hex(16)
        self._seats[seat] = Seat(policy, over)
        try:
            yield f"/{seat}/v1"
        finally:
            del self._seats[seat]
            policy.end()  # whoever waits for a turn still would keep servers open

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        seat = self._seats.get(request.match_info["seat"])
        if seat is None:
            raise web.HTTPNotFound(text="no such rollout")
        body = await json_object(request)
        try:
            if not isinstance(body.get("messages"), list):
                raise UsageError(f"messages is {body.get('messages')!r:.60}; expected a list")
            written = await seat.policy.ask(body["messages"], body.get("tools") or ())
        except PlauditError as error:
            if isinstance(error, EpisodeOver):
                seat.over()
            return web.json_response({"error": {"message": str(error), "type": "invalid_request_error"}}, status=400)
        if body.get("stream"):
            return await _streamed(request, written)
        return web.json_response(_completion(written, "chat.completion", {"message": written.message}))


def _completion(written: Written, kind: str, said: dict[str, Any]) -> dict[str, Any]:
    count = len(written.completion_ids)
    return {
        "id": f"chatcmpl-{secrets.token_hex(8)}",
        "object": kind,
        "created": int(time.time()),
        "model": "policy",
        "choices": [{"index": 0, "finish_reason": written.finish_reason, "logprobs": None, **said}],
        "usage": {
            "prompt_tokens": written.context_tokens,
            "completion_tokens": count,
            "total_tokens": written.context_tokens + count,
        },
    }


async def _streamed(request: web.Request, written: Written) -> web.StreamResponse:
    """The whole turn as one event."""
    from aiohttp import web

    calls = [{"index": place, **call} for place, call in enumerate(written.message.get("tool_calls") or [])]
    delta = {**written.message, "tool_calls": calls} if calls else written.message
    events = [json.dumps(_completion(written, "chat.completion.chunk", {"delta": delta})), "[DONE]"]
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    await response.write("".join(f"data: {event}\n\n" for event in events).encode())
    await response.write_eof()
    return response


@dataclass(slots=True, eq=False)
class HeldOpen:
    """What must stay open while somebody uses it, on a task of its own on each event loop."""

    opening: Callable[[], Any]
    _held: dict[int, _Open] = field(default_factory=dict)

    async def take(self) -> Any:
        """What `opening()`, an async context manager, yields; opened for the first who takes it on this loop."""
        loop = asyncio.get_running_loop()
        held = self._held.get(id(loop))
        if held is None or held.loop is not loop:
            held = self._held[id(loop)] = _Open(loop)
            held.task = asyncio.ensure_future(self._hold(held))
        held.users += 1
        try:
            return await asyncio.shield(held.value)
        except BaseException:
            await self.give_back()
            raise

    async def give_back(self) -> None:
        """Close it when nobody uses it any more."""
        held = self._held.get(id(asyncio.get_running_loop()))
        if held is None:
            return
        held.users -= 1
        if held.users <= 0:
            del self._held[id(held.loop)]
            held.done.set()
            if held.task is not None:
                await asyncio.wait({held.task}, timeout=30.0)

    async def _hold(self, held: _Open) -> None:
        try:
            async with self.opening() as value:
                held.value.set_result(value)
                await held.done.wait()
        except BaseException as error:
            if held.value.done():
                raise
            held.value.set_exception(error)


class _Open:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.value: asyncio.Future[Any] = loop.create_future()
        self.done = asyncio.Event()
        self.users = 0
        self.task: asyncio.Task[None] | None = None
