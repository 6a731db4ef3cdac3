"""Environments of an OpenEnv server (openenv-core 0.3) over its WebSocket: named `openenv` in a run file.

Its actions are one tool, `step`, whose arguments are the server's action schema.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from .http import JSONClient, ServerError, ask_now, number_of, part_of
from .remote_tools import class_with_tools, function_schema_of

_HIDDEN = ("metadata",)


def openenv_environment(*, url: str, timeout_s: float = 120.0) -> Any:
    """An environment of the server at `url`. Raises ConnectionError when it is down."""
    return _class_of(url, timeout_s)()


class OpenEnvEpisode:
    """One WebSocket session. The reward is the sum of what the steps gave."""

    url: str
    timeout_s: float
    tools: tuple[str, ...] = ()

    def __init__(self) -> None:
        # One each: closing an instance must not take the connections of another.
        self.client = JSONClient(self.url, self.timeout_s)
        self._socket: Any = None
        self._reward: float | None = None
        self._done = False

    async def reset(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> str:
        """Begin an episode; the row's other columns go to the server's reset."""
        self._reward, self._done = None, False
        data = {"seed": seed, "episode_id": episode_id, **row}
        told = await self._ask("reset", {name: value for name, value in data.items() if value is not None})
        return self._heard(told)

    async def act(self, name: str, arguments: dict[str, Any]) -> str:
        """Take a step; what the model reads. Raises ServerError when the episode is over."""
        if self._done:
            raise ServerError("the episode has ended")
        return self._heard(await self._ask("step", arguments))

    def get_reward(self) -> float | None:
        """The sum of the rewards so far; None where there was none."""
        return self._reward

    async def close(self) -> None:
        """End the session."""
        socket, self._socket = self._socket, None
        try:
            if socket is not None and not socket.closed:
                await socket.send_str(json.dumps({"type": "close"}))
                await socket.close()
        finally:
            await self.client.close()

    async def _ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        if self._socket is None or self._socket.closed:
            if kind != "reset":
                raise ServerError(f"{self._where} closed the connection; the episode is lost")
            self._socket = await self.client.socket("/ws")
        await self._socket.send_str(json.dumps({"type": kind, "data": data}))
        try:
            heard = await self._socket.receive(self.client.timeout_s)
        except TimeoutError:
            await self._socket.close()  # an answer that comes late would be taken for the next one's
            raise TimeoutError(f"{kind} at {self._where} was not answered within {self.client.timeout_s:g} s") from None
        try:
            told = json.loads(heard.data)
        except (TypeError, ValueError):
            await self._socket.close()
            said = "closed the connection" if not isinstance(heard.data, str) else f"answered {heard.data[:80]!r}"
            raise ServerError(f"{self._where} {said} on {kind}; expected JSON") from None
        if isinstance(told, dict) and told.get("type") == "error":
            raise ServerError(f"{self._where}: {told.get('data')}")
        return dict(part_of(told, "data", dict, self._where))

    @property
    def _where(self) -> str:
        return f"{self.client.url}/ws"

    def _heard(self, told: dict[str, Any]) -> str:
        if told.get("reward") is not None:
            self._reward = (self._reward or 0.0) + number_of(told["reward"], "reward", self._where)
        self._done = bool(told.get("done"))
        observation = part_of(told, "observation", dict, self._where)
        shown = {
            name: value for name, value in observation.items() if name not in _HIDDEN and value not in ("", [], {})
        }
        return str(next(iter(shown.values()))) if len(shown) == 1 else json.dumps(shown, ensure_ascii=False)


@functools.cache
def _class_of(url: str, timeout_s: float) -> type:
    JSONClient(url, timeout_s)
    schema = part_of(ask_now(url, "/schema"), "action", dict, f"{url}/schema")
    properties = {name: value for name, value in schema.get("properties", {}).items() if name not in _HIDDEN}
    parameters = {"type": "object", "properties": properties, "required": schema.get("required", [])}
    step = function_schema_of("step", schema.get("description", "Take a step."), parameters)
    made: Any = class_with_tools("OpenEnv", OpenEnvEpisode, [step], OpenEnvEpisode.act)
    made.url, made.timeout_s = url, timeout_s
    found: type = made
    return found
