"""An environment behind OpenEnv's interface (openenv-core 0.3): `reset`, `step(action)`, `state`, over its own server.

An action calls a tool (`tool` and `arguments`) or ends the episode with the model's answer (`answer`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import UsageError
from plaudit.rollout.agent.spec import EnvironmentSpec

from .sessions import EnvironmentSessions

MAX_SESSIONS = 256


def openenv_app(
    environment: EnvironmentSpec | Callable[[], Any] | str,
    tasks: Sequence[Mapping[str, Any]] = ({},),
    *,
    max_sessions: int = MAX_SESSIONS,
) -> Any:
    """A FastAPI application by OpenEnv's `create_app`. `tasks`: rows; `reset(seed=n)` takes row n modulo their number.

    Raises UsageError when openenv-core is missing or the environment cannot be made.
    """
    try:
        from openenv.core.env_server import create_app
    except ImportError as error:
        raise UsageError(f"serving OpenEnv needs openenv-core: pip install openenv-core ({error})") from error
    if not tasks:
        raise UsageError("there are no tasks to serve; give at least one row")
    sessions = EnvironmentSessions(environment)
    action, observation = _records()
    rows = [dict(row) for row in tasks]
    served = _served(lambda: _Episode(sessions, rows), observation)
    return create_app(served, action, observation, env_name=sessions.name, max_concurrent_envs=max_sessions)


@dataclass(slots=True)
class _Episode:
    """One client's episodes, one after another, on a session of its own."""

    sessions: EnvironmentSessions
    tasks: Sequence[Mapping[str, Any]]
    sid: str = field(default_factory=lambda: uuid.uuid4().hex)

    async def reset(self, seed: int, row: Mapping[str, Any]) -> dict[str, Any]:
        """Begin; the fields of the observation."""
        await self.sessions.delete(self.sid)
        found = await self.sessions.create(self.sid, {**self.tasks[seed % len(self.tasks)], **row}, seed=seed)
        return {"text": found.prompt, "tools": [tool.schema for tool in self.sessions.kind.tools]}

    async def step(self, action: Any, timeout_s: float | None) -> dict[str, Any]:
        """Call a tool or end; the fields of the observation. Raises UsageError before a reset."""
        if self.sid not in self.sessions:
            raise UsageError("step before reset: reset the environment first")
        if action.tool is None:
            reward = await asyncio.wait_for(self.sessions.finish(self.sid, action.answer or ""), timeout_s)
            return {"done": True, "reward": reward}
        try:
            called = self.sessions.call(self.sid, action.tool, action.arguments)
            return {"text": await asyncio.wait_for(called, timeout_s)}
        except UsageError as error:
            return {"text": f"error: {error}", "metadata": {"failed": True}}


def _records() -> tuple[type, type]:
    """The Action and Observation of our environments."""
    from openenv.core.env_server.types import Action, Observation
    from pydantic import Field

    class ToolAction(Action):
        """A tool call, or the answer that ends the episode."""

        tool: str | None = None
        arguments: dict[str, Any] = Field(default_factory=dict)
        answer: str | None = None

    class TextObservation(Observation):
        """What the environment says; `tools`: what may be called, told at reset."""

        text: str = ""
        tools: list[dict[str, Any]] = Field(default_factory=list)

    return ToolAction, TextObservation


def _served(begin: Callable[[], _Episode], observation: type) -> type:
    """The Environment class of the server."""
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import State

    class Served(Environment):
        """One episode at a time."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._episode, self._state = begin(), State()

        def reset(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> Any:
            return asyncio.run(self.reset_async(seed, episode_id, **row))

        async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> Any:
            self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
            return observation(**await self._episode.reset(seed or 0, row))

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            return asyncio.run(self.step_async(action, timeout_s))

        async def step_async(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            self._state.step_count += 1
            return observation(**await self._episode.step(action, timeout_s))

        @property
        def state(self) -> Any:
            return self._state

        def close(self) -> None:
            asyncio.run(self._episode.sessions.delete(self._episode.sid))

    return Served
