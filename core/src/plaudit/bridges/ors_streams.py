"""Answers of an ORS server that come as server-sent events, and what its group scoring is asked."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.types import Verdict

if TYPE_CHECKING:
    from aiohttp import web

PING_S = 10.0
KEPT = 1024
"""Results that stay to be asked for again."""


class Works:
    """Work under way and done, by the id that a client takes it up again with after its connection broke."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def begun(self, task_id: str | None, work: Coroutine[Any, Any, Any]) -> tuple[str, asyncio.Task[Any]]:
        """The work of that id if there is such, and this is left undone; else this, with an id."""
        if task_id in self._tasks:
            work.close()
            return task_id, self._tasks[task_id]
        for done in [one for one, task in self._tasks.items() if task.done()][:-KEPT]:
            del self._tasks[done]
        found = task_id or uuid.uuid4().hex
        self._tasks[found] = asyncio.ensure_future(work)
        return found, self._tasks[found]

    def stop(self) -> None:
        """Stop what is under way, and forget all."""
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()


async def streamed(request: web.Request, task_id: str, task: asyncio.Task[Any]) -> web.StreamResponse:
    """The id at once, then the result as JSON or the error; pings keep the connection open meanwhile."""
    from aiohttp import web

    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    await response.write(_event("task_id", task_id))
    while not (await asyncio.wait({task}, timeout=PING_S))[0]:
        await response.write(b": ping\n\n")
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    data = _event("end", json.dumps(task.result())) if error is None else _event("error", _said(error))
    await response.write(data)
    await response.write_eof()
    return response


async def session_made(request: web.Request) -> web.StreamResponse:
    """The id of a new session, as clients are told it."""
    from aiohttp import web

    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    await response.write(_event("task_id", uuid.uuid4().hex) + _event("end", ""))
    await response.write_eof()
    return response


def candidates_of(body: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The sessions and the last turns of a group's candidates. Raises UsageError on what a candidate lacks."""
    candidates = body.get("candidates")
    if not isinstance(candidates, list) or not candidates:
        raise UsageError(f"candidates is {candidates!r:.60}; expected a list, one for each rollout")
    sids = [_session_of(place, one) for place, one in enumerate(candidates)]
    return sids, [_last_turn(place, one) for place, one in enumerate(candidates)]


def scores_of(verdicts: list[Verdict]) -> dict[str, Any]:
    """The answer. Raises UsageError where a rollout has no score, which the protocol has no word for."""
    for place, one in enumerate(verdicts):
        if one.score is None:
            raise UsageError(f"candidate {place} has no score: {one.reason or 'it abstained'}")
    return {"scores": [{"reward": one.score, "metadata": dict(one.metrics) or None} for one in verdicts]}


def _session_of(place: int, candidate: Any) -> str:
    metadata = candidate.get("metadata") if isinstance(candidate, Mapping) else None
    sid = metadata.get("sid") if isinstance(metadata, Mapping) else None
    if not isinstance(sid, str):
        raise UsageError(
            f"candidate {place} has no metadata.sid; an environment here compares sessions, so each names its own"
        )
    return sid


def _last_turn(place: int, candidate: Mapping[str, Any]) -> str:
    messages = candidate.get("messages")
    if not isinstance(messages, list):
        raise UsageError(f"candidate {place}: messages is {messages!r:.60}; expected a list")
    said = [one for one in messages if isinstance(one, Mapping) and one.get("role") == "assistant"]
    blocks = said[-1].get("blocks") or [] if said else []
    return "\n".join(block.get("text") or "" for block in blocks if block.get("type", "text") == "text")


def _event(name: str, data: str) -> bytes:
    return f"event: {name}\n{''.join(f'data: {line}{chr(10)}' for line in data.split(chr(10)))}\n".encode()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
