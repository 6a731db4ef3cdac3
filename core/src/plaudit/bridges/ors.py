"""Environments and tasks of an Open Reward Standard server (openreward 0.1): named `ors` in a run file.

[data]
name = "ors"
options = {url = "http://127.0.0.1:8080"}

[[environment]]
name = "ors"
options = {url = "http://127.0.0.1:8080"}
"""

from __future__ import annotations

import asyncio
import functools
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError
from plaudit.types import Verdict

from .http import JSONClient, ServerError, ask_now, number_of, part_of
from .remote_tools import class_with_tools, function_schema_of

_KEEPALIVE_HEADER = "X-Session-ID"


def ors_environment(
    *, url: str, environment: str | None = None, timeout_s: float = 120.0, group_weight: float = 1.0
) -> Any:
    """An environment of the server at `url`; by default its first. Its tools are the server's.

    `group_weight`: of the server's comparison of a group, where it makes one, beside the rewards of its tools; 0 = none
    is asked for. Raises ConnectionError when the server is down, ServerError on its errors.
    """
    return _class_of(url, environment, timeout_s, group_weight)()


def ors_tasks(*, url: str, environment: str | None = None, split: str = "train", limit: int | None = None) -> list[Any]:
    """The tasks of a split as rows: an empty prompt, which the environment fills, `task_index` and `task_split`.

    Raises UsageError on a split that the server does not have.
    """
    name = _name_of(url, environment)
    splits = [one["name"] if isinstance(one, Mapping) else one for one in _listed(url, f"/{name}/splits")]
    if split not in splits:
        raise UsageError(f"{url}: {name} has no split {split!r}; it has {', '.join(map(str, splits)) or 'none'}")
    count = part_of(ask_now(url, f"/{name}/num_tasks", {"split": split}), "num_tasks", int, f"{url}/{name}/num_tasks")
    if count < 1 or (limit is not None and limit < 1):
        raise UsageError(f"{url}: {name} has {count} tasks in {split!r}, and limit is {limit}; that leaves no row")
    wanted = count if limit is None else min(count, limit)
    empty = [{"role": "user", "content": ""}]
    return [{"prompt": empty, "task_index": index, "task_split": split} for index in range(wanted)]


class ORSEpisode:
    """One session. The reward is the last that a tool gave; if the server has a terminal tool, it gets the answer."""

    url: str
    timeout_s: float
    environment: str
    terminal: dict[str, Any] | None = None
    tools: tuple[str, ...] = ()

    def __init__(self) -> None:
        # One each: closing an instance must not take the connections of another.
        self.client = JSONClient(self.url, self.timeout_s)
        self._sid: str | None = None
        self._reward: float | None = None
        self._finished = False

    async def reset(self, task_index: int, task_split: str = "train") -> str:
        """Begin a session on a task; returns the server's prompt."""
        await self._end()
        self._sid, self._reward, self._finished = uuid.uuid4().hex, None, False
        body = {"env_name": self.environment, "split": task_split, "index": task_index}
        await self.client.post("/create", body, self._headers)
        return self._text(await self.client.get(f"/{self.environment}/prompt", self._headers), "/prompt")

    async def _last(self, completion: str) -> float | None:
        """Hand the answer to the server's terminal tool, if it has one; the reward, None where it gave none."""
        if not self._finished and self.terminal is not None:
            argument = self.terminal.get("arg")
            await self._call(self.terminal["name"], {argument: completion} if argument else {})
        return self._reward

    async def close(self) -> None:
        """End the session."""
        try:
            await self._end()
        finally:
            await self.client.close()

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool; what the model reads. Raises ServerError on an error of the server or the call."""
        told = await self._events("/call", {"name": name, "input": arguments})
        if not told.get("ok"):
            raise ServerError(str(told.get("error") or f"{name} failed"))
        output = part_of(told, "output", dict, f"{self._path}/call")
        if output.get("reward") is not None:
            self._reward = number_of(output["reward"], "reward", f"{self._path}/call")
        self._finished = self._finished or bool(output.get("finished"))
        return self._text(output.get("blocks") or [], "/call")

    async def _compared(self, sids: Sequence[str | None], completions: Sequence[str]) -> list[float]:
        """The server's scores of a group, in whose first session it is asked."""
        candidates = [
            {"messages": [{"role": "assistant", "blocks": [{"type": "text", "text": one}]}], "metadata": {"sid": sid}}
            for sid, one in zip(sids, completions, strict=True)
        ]
        told = await self._events("/score_group", {"candidates": candidates})
        where = f"{self._path}/score_group"
        scores = part_of(told, "scores", list, where)
        if len(scores) != len(sids):
            raise ServerError(f"{where} gave {len(scores)} scores for {len(sids)} candidates")
        return [number_of(part_of(one, "reward", (int, float), where), "reward", where) for one in scores]

    async def _events(self, route: str, body: dict[str, Any]) -> dict[str, Any]:
        events = await self.client.events(f"/{self.environment}{route}", body, self._headers)
        if "error" in events:
            raise ServerError(events["error"])
        text = events.get("chunk", "") + events.get("end", "")
        try:
            told = json.loads(text)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise ServerError(f"{self._path}{route} ended with {text[:80]!r}; expected an object")
        return told

    def _text(self, blocks: Any, route: str) -> str:
        if not isinstance(blocks, list) or not all(isinstance(block, Mapping) for block in blocks):
            raise ServerError(f"{self._path}{route} gave {blocks!r:.80}; expected a list of blocks")
        return "\n".join(block.get("text") or "" for block in blocks if block.get("type", "text") == "text")

    @property
    def _path(self) -> str:
        return f"{self.client.url}/{self.environment}"

    @property
    def _headers(self) -> dict[str, str]:
        return {_KEEPALIVE_HEADER: self._sid or ""}

    async def _end(self) -> None:
        if self._sid is not None:
            headers, self._sid = self._headers, None
            await self.client.post("/delete", {}, headers)


class ScoredAlone(ORSEpisode):
    """Its reward is what its session gave."""

    async def get_reward(self, completion: str) -> float | None:
        """The reward of the episode; None where the server gave none."""
        return await self._last(completion)


class ScoredTogether(ORSEpisode):
    """Its reward is what its session gave, if that gave one, and what the server says of the group besides."""

    group_weight = 1.0

    @classmethod
    async def score_group(cls, environments: Sequence[ORSEpisode], completions: Sequence[str]) -> list[Verdict]:
        """A verdict each. Raises ServerError when the server fails."""
        own = await asyncio.gather(*(one._last(text) for one, text in zip(environments, completions, strict=True)))
        compared = await environments[0]._compared([one._sid for one in environments], completions)
        return [cls._verdict(alone, together) for alone, together in zip(own, compared, strict=True)]

    @classmethod
    def _verdict(cls, alone: float | None, together: float) -> Verdict:
        metrics = {"group": together} | ({} if alone is None else {"alone": alone})
        return Verdict((alone or 0.0) + cls.group_weight * together, metrics=metrics)


@functools.cache
def _class_of(url: str, environment: str | None, timeout_s: float, group_weight: float) -> type:
    JSONClient(url, timeout_s)
    name = _name_of(url, environment)
    told, where = ask_now(url, f"/{name}/tools"), f"{url}/{name}/tools"
    schemas = [
        function_schema_of(part_of(tool, "name", str, where), tool.get("description", ""), tool.get("input_schema"))
        for tool in part_of(told, "tools", list, where)
    ]
    together = bool(told.get("supports_score_group")) and group_weight != 0
    made: Any = class_with_tools(name, ScoredTogether if together else ScoredAlone, schemas, ORSEpisode._call)
    made.url, made.timeout_s, made.environment, made.group_weight = url, timeout_s, name, group_weight
    made.terminal = told.get("terminal_tool")
    found: type = made
    return found


def _name_of(url: str, environment: str | None) -> str:
    offered = [str(one) for one in _listed(url, "/list_environments")]
    if not offered:
        raise UsageError(f"{url} has no environments")
    if environment is None:
        return offered[0]
    found = next((name for name in offered if name.lower() == environment.lower()), None)
    if found is None:
        raise UsageError(f"{url} has no environment {environment!r}; it has {', '.join(offered)}")
    return found


def _listed(url: str, path: str) -> list[Any]:
    told = ask_now(url, path)
    if not isinstance(told, list):
        raise ServerError(f"{url}{path} answered {told!r:.80}; expected a list")
    return told
