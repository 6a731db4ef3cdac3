"""An environment behind the Open Reward Standard's routes (openreward 0.1), for any trainer that speaks it.

Tasks are rows. The model's tools are the environment's; its plain answer ends the episode, through a terminal tool that
returns the reward.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.scoring.web import WebLimits, json_object, web_app

from .ors_streams import Works, candidates_of, scores_of, session_made, streamed
from .sessions import EnvironmentSessions, Session

if TYPE_CHECKING:
    from aiohttp import web

    from plaudit.scoring.web import Handler

SPLIT = "train"
TERMINAL = "finish"
SWEEP_S = 5.0


class ORSServer:
    """`tasks`: the rows of the one split, "train"."""

    def __init__(self, sessions: EnvironmentSessions, tasks: Sequence[Mapping[str, Any]]) -> None:
        if not tasks:
            raise UsageError(f"environment '{sessions.name}' has no tasks to serve; give it at least one row")
        self._sessions = sessions
        self._tasks = [dict(row) for row in tasks]
        self._works = Works()

    def app(self, limits: WebLimits) -> web.Application:
        """The aiohttp application."""
        app = web_app(limits)
        gets: dict[str, Handler] = {"/health": self._health, "/list_environments": self._environments}
        posts: dict[str, Handler] = {
            "/ping": self._ping,
            "/create_session": self._new_session,
            "/create": self._create,
            "/delete": self._delete,
            "/delete_session": self._ended,
        }
        # Without a name the one environment is meant, as clients of a server by itself expect.
        for prefix in ("", f"/{self._sessions.name}"):
            gets |= {
                f"{prefix}/tools": self._tools,
                f"{prefix}/task_tools": self._tools,
                f"{prefix}/splits": self._splits,
                f"{prefix}/prompt": self._prompt,
            }
            posts |= {
                f"{prefix}/call": self._call,
                f"{prefix}/tasks": self._list_tasks,
                f"{prefix}/num_tasks": self._num_tasks,
                f"{prefix}/task": self._task,
                f"{prefix}/task_range": self._task_range,
                f"{prefix}/score_group": self._score_group,
            }
        for path, handler in gets.items():
            app.router.add_get(path, handler)
        for path, handler in posts.items():
            app.router.add_post(path, handler)
        app.cleanup_ctx.append(self._life)
        return app

    async def _life(self, _: web.Application) -> AsyncIterator[None]:
        async def sweep() -> None:
            while True:
                await asyncio.sleep(SWEEP_S)
                await self._sessions.sweep()

        sweeping = asyncio.create_task(sweep())
        yield
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping
        self._works.stop()
        await self._sessions.close()

    async def _health(self, _: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _environments(self, _: web.Request) -> web.Response:
        return _json([self._sessions.name])

    async def _tools(self, _: web.Request) -> web.Response:
        tools = [_tool_spec(tool.schema) for tool in self._sessions.kind.tools]
        terminal = {"name": TERMINAL, "arg": "answer", "description": "Ends the episode and returns its reward."}
        return _json({"tools": tools, "terminal_tool": terminal, "supports_score_group": self._sessions.scores_groups})

    async def _splits(self, _: web.Request) -> web.Response:
        return _json([{"name": SPLIT, "type": "train"}])

    async def _list_tasks(self, request: web.Request) -> web.Response:
        await self._split(request)
        return _json({"tasks": self._tasks, "env_name": self._sessions.name})

    async def _num_tasks(self, request: web.Request) -> web.Response:
        await self._split(request)
        return _json({"num_tasks": len(self._tasks)})

    async def _task(self, request: web.Request) -> web.Response:
        body = await self._split(request)
        return _json({"task": self._row(body.get("index")), "env_name": self._sessions.name})

    async def _task_range(self, request: web.Request) -> web.Response:
        body = await self._split(request)
        start, stop = body.get("start"), body.get("stop")
        for name, place in (("start", start), ("stop", stop)):
            if place is not None and (not isinstance(place, int) or isinstance(place, bool)):
                raise UsageError(f"{name} is {place!r}; expected a whole number")
        return _json({"tasks": self._tasks[start:stop], "env_name": self._sessions.name})

    async def _new_session(self, request: web.Request) -> web.StreamResponse:
        return await session_made(request)

    async def _create(self, request: web.Request) -> web.Response:
        sid, body = _sid(request), await json_object(request)
        if body.get("env_name", self._sessions.name) not in (None, self._sessions.name):
            raise UsageError(f"no environment {body['env_name']!r} here; there is {self._sessions.name}")
        given = body.get("task_spec")
        index = body.get("index")
        row = given if given is not None else self._row(index)
        await self._sessions.create(sid, row, seed=index or 0)
        return _json({"sid": sid})

    async def _delete(self, request: web.Request) -> web.Response:
        sid = _sid(request)
        await self._sessions.delete(sid)
        return _json({"sid": sid})

    async def _ended(self, request: web.Request) -> web.Response:
        return _json({"sid": _sid(request)})

    async def _ping(self, request: web.Request) -> web.Response:
        self._session(request)
        return _json({"status": "ok"})

    async def _prompt(self, request: web.Request) -> web.Response:
        return _json([_text_block(self._session(request).prompt)])

    async def _call(self, request: web.Request) -> web.StreamResponse:
        session, body = self._session(request), await json_object(request)
        task_id, work = self._works.begun(body.get("task_id"), self._called(_sid(request), session, body))
        return await streamed(request, task_id, work)

    async def _score_group(self, request: web.Request) -> web.StreamResponse:
        from aiohttp import web

        self._session(request)
        if not self._sessions.scores_groups:
            raise web.HTTPNotFound(text=f"environment {self._sessions.name!r} does not compare a group")
        body = await json_object(request)
        sids, completions = candidates_of(body)

        async def scored() -> dict[str, Any]:
            return scores_of(await self._sessions.score_group(sids, completions))

        task_id, work = self._works.begun(body.get("task_id"), scored())
        return await streamed(request, task_id, work)

    async def _called(self, sid: str, session: Session, body: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = body.get("name"), body.get("input") or {}
        if not isinstance(arguments, dict):
            return {
                "ok": False,
                "error": f"input is {arguments!r:.60}; expected an object",
                "reason": "input_validation",
            }
        if session.finished:
            return {"ok": False, "error": "the episode has ended", "reason": "episode_finished"}
        if name == TERMINAL:
            reward = await self._sessions.finish(sid, str(arguments.get("answer") or ""))
            return _success("", reward=reward, finished=True)
        try:
            return _success(await self._sessions.call(sid, str(name), arguments))
        except UsageError as error:
            known = any(tool.name == name for tool in self._sessions.kind.tools)
            return {"ok": False, "error": str(error), "reason": "input_validation" if known else "not_found"}

    async def _split(self, request: web.Request) -> dict[str, Any]:
        body = await json_object(request)
        if body.get("split") != SPLIT:
            raise UsageError(f"no split {body.get('split')!r}; there is {SPLIT!r}")
        return body

    def _row(self, index: Any) -> dict[str, Any]:
        if not isinstance(index, int) or isinstance(index, bool) or not 0 <= index < len(self._tasks):
            raise UsageError(f"no task {index!r}; there are {len(self._tasks)}")
        return self._tasks[index]

    def _session(self, request: web.Request) -> Session:
        from aiohttp import web

        try:
            return self._sessions.get(_sid(request))
        except KeyError:
            raise web.HTTPNotFound(text="no such session") from None


def _success(text: str, *, reward: float | None = None, finished: bool = False) -> dict[str, Any]:
    output = {"blocks": [_text_block(text)], "metadata": None, "reward": reward, "finished": finished}
    return {"ok": True, "output": output}


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "detail": None}


def _tool_spec(schema: Mapping[str, Any]) -> dict[str, Any]:
    function = schema["function"]
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function.get("parameters"),
    }


def _sid(request: web.Request) -> str:
    sid = request.headers.get("X-Session-ID", "").strip()
    if not sid:
        raise UsageError("the header X-Session-ID is missing")
    return sid


def _json(value: Any) -> web.Response:
    from aiohttp import web

    return web.json_response(value)
