"""An environment behind OpenEnv's interface (openenv-core 0.3): `reset`, `step(action)`, `state`, over its own server.

An action calls a tool (`tool` and `arguments`) or ends the episode with the model's answer (`answer`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
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
    sessions = EnvironmentSessions(environment)
    action, observation, served = _classes(sessions, [dict(row) for row in tasks])
    return create_app(served, action, observation, env_name=sessions.name, max_concurrent_envs=max_sessions)


def _classes(sessions: EnvironmentSessions, tasks: Sequence[Mapping[str, Any]]) -> tuple[type, type, type]:
    """Action, Observation and Environment classes over the sessions."""
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, Observation, State
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

    class Served(Environment):
        """One episode at a time, on a session of its own."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self._sid = uuid.uuid4().hex
            self._state = State()

        def reset(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> Any:
            return asyncio.run(self.reset_async(seed, episode_id, **row))

        async def reset_async(self, seed: int | None = None, episode_id: str | None = None, **row: Any) -> Any:
            await sessions.delete(self._sid)
            self._state = State(episode_id=episode_id or uuid.uuid4().hex, step_count=0)
            number = seed or 0
            found = await sessions.create(self._sid, {**tasks[number % len(tasks)], **row}, seed=number)
            return TextObservation(text=found.prompt, tools=[tool.schema for tool in sessions.kind.tools])

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            return asyncio.run(self.step_async(action, timeout_s))

        async def step_async(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            if self._sid not in sessions:
                raise UsageError("step before reset: reset the environment first")
            self._state.step_count += 1
            if action.tool is None:
                reward = await asyncio.wait_for(sessions.finish(self._sid), timeout_s)
                return TextObservation(done=True, reward=reward)
            try:
                called = sessions.call(self._sid, action.tool, action.arguments)
                return TextObservation(text=await asyncio.wait_for(called, timeout_s))
            except UsageError as error:
                return TextObservation(text=f"error: {error}", metadata={"failed": True})

        @property
        def state(self) -> Any:
            return self._state

        def close(self) -> None:
            asyncio.run(sessions.delete(self._sid))

    return ToolAction, TextObservation, Served
