"""Environments and tasks of an Open Reward Standard server (openreward 0.1): named `ors` in a run file.

[data]
name = "ors"
options = {url = "http://127.0.0.1:8080"}

[[environment]]
name = "ors"
options = {url = "http://127.0.0.1:8080"}
"""

from __future__ import annotations

import functools
import json
import uuid
from typing import Any

from plaudit.errors import UsageError

from .http import JSONClient, ServerError, ask_now
from .remote_tools import class_with_tools, function_schema_of

_KEEPALIVE_HEADER = "X-Session-ID"


def ors_environment(*, url: str, environment: str | None = None, timeout_s: float = 120.0) -> Any:
    """An environment of the server at `url`; by default its first. Its tools are the server's.

    Raises ConnectionError when the server is down, ServerError on its errors.
    """
    return _class_of(url, environment, timeout_s)()


def ors_tasks(*, url: str, environment: str | None = None, split: str = "train", limit: int | None = None) -> list[Any]:
    """The tasks of a split as rows: an empty prompt, which the environment fills, `task_index` and `task_split`."""
    name = _name_of(url, environment)
    count = ask_now(url, f"/{name}/num_tasks", {"split": split})["num_tasks"]
    wanted = count if limit is None else min(count, limit)
    empty = [{"role": "user", "content": ""}]
    return [{"prompt": empty, "task_index": index, "task_split": split} for index in range(wanted)]


class ORSEpisode:
    """One session. The reward is the last that a tool gave; if the server has a terminal tool, it gets the answer."""

    client: JSONClient
    environment: str
    terminal: dict[str, Any] | None = None
    tools: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._sid: str | None = None
        self._reward: float | None = None
        self._finished = False

    async def reset(self, task_index: int, task_split: str = "train") -> str:
        """Begin a session on a task; returns the server's prompt."""
        await self._end()
        self._sid, self._reward, self._finished = uuid.uuid4().hex, None, False
        body = {"env_name": self.environment, "split": task_split, "index": task_index}
        await self.client.post("/create", body, self._headers)
        return _text(await self.client.get(f"/{self.environment}/prompt", self._headers))

    async def get_reward(self, completion: str) -> float | None:
        """The reward of the episode; None where the server gave none."""
        if not self._finished and self.terminal is not None:
            argument = self.terminal.get("arg")
            await self.call(self.terminal["name"], {argument: completion} if argument else {})
        return self._reward

    async def close(self) -> None:
        """End the session."""
        await self._end()
        await self.client.close()

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool; what the model reads. Raises ServerError on an error of the server or the call."""
        body = {"name": name, "input": arguments}
        events = await self.client.events(f"/{self.environment}/call", body, self._headers)
        if "error" in events:
            raise ServerError(events["error"])
        told = json.loads(events.get("chunk", "") + events.get("end", ""))
        if not told.get("ok"):
            raise ServerError(str(told.get("error")))
        output = told["output"]
        if output.get("reward") is not None:
            self._reward = float(output["reward"])
        self._finished = self._finished or bool(output.get("finished"))
        return _text(output["blocks"])

    @property
    def _headers(self) -> dict[str, str]:
        return {_KEEPALIVE_HEADER: self._sid or ""}

    async def _end(self) -> None:
        if self._sid is not None:
            headers, self._sid = self._headers, None
            await self.client.post("/delete", {}, headers)


@functools.cache
def _class_of(url: str, environment: str | None, timeout_s: float) -> type:
    name = _name_of(url, environment)
    told = ask_now(url, f"/{name}/tools")
    schemas = [
        function_schema_of(tool["name"], tool.get("description", ""), tool.get("input_schema"))
        for tool in told["tools"]
    ]
    made = class_with_tools(name, ORSEpisode, schemas, ORSEpisode.call)
    made.client, made.environment = JSONClient(url, timeout_s), name  # type: ignore[attr-defined]
    made.terminal = told.get("terminal_tool")  # type: ignore[attr-defined]
    return made


def _name_of(url: str, environment: str | None) -> str:
    offered = ask_now(url, "/list_environments")
    if environment is None:
        return str(offered[0])
    if environment.lower() not in [name.lower() for name in offered]:
        raise UsageError(f"{url} has no environment {environment!r}; it has {', '.join(offered)}")
    return environment.lower()


def _text(blocks: list[dict[str, Any]]) -> str:
    return "\n".join(block.get("text", "") for block in blocks if block.get("type", "text") == "text")
