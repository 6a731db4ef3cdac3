"""One environment instance a client session, for the servers that offer our environments to other trainers."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.contract import as_verdict, as_verdicts
from plaudit.plugins.importing import describe_error
from plaudit.rollout.agent.kinds import EnvironmentKind, probe
from plaudit.rollout.agent.spec import EnvironmentSpec, environment_spec_of
from plaudit.types import Verdict

IDLE_S = 900.0


@dataclass(slots=True, eq=False)
class Session:
    """An instance, what it first said, and whether its episode is over."""

    instance: Any
    prompt: str
    finished: bool = False
    used_at: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class EnvironmentSessions:
    """The sessions of one environment. A session that nobody used for `idle_s` seconds is closed by `sweep`."""

    def __init__(self, environment: EnvironmentSpec | Callable[[], Any] | str, *, idle_s: float = IDLE_S) -> None:
        """`environment`: a name, class, factory or spec.

        Raises UsageError when it cannot be made, has no reset, or answers turns itself.
        """
        self._spec = environment_spec_of(environment)
        self.kind: EnvironmentKind
        self.kind, probed = probe(None, self._spec)
        if self.kind.replies is not None:
            raise UsageError(
                f"{self.kind.label} answers turns itself (answer_turn); the protocols served here have tools alone"
            )
        self._spare = [probed]
        self._idle_s = idle_s
        self._sessions: dict[str, Session] = {}

    @property
    def name(self) -> str:
        """What it is called: its class, in lower case."""
        return self.kind.type.__name__.lower()

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, sid: str) -> bool:
        return sid in self._sessions

    async def create(self, sid: str, row: Mapping[str, Any], *, seed: int = 0) -> Session:
        """A session whose instance is reset with a row. Raises UsageError on a session that exists, or a bad row."""
        if sid in self._sessions:
            raise UsageError(f"session {sid!r} exists already")
        columns = {name: value for name, value in row.items() if name != "prompt"}
        self.kind.check_columns(columns)
        instance = self._spare.pop() if self._spare else await _called(self._spec.factory)
        try:
            said = await _called(instance.reset, **self.kind.reset_arguments(columns, seed))
        except BaseException:
            await _close(instance)
            raise
        session = Session(instance, _joined(row.get("prompt"), said))
        self._sessions[sid] = session
        return session

    def get(self, sid: str) -> Session:
        """The session, used now. Raises KeyError."""
        session = self._sessions[sid]
        session.used_at = time.monotonic()
        return session

    async def call(self, sid: str, name: str, arguments: Mapping[str, Any]) -> str:
        """Call a tool and return what it says, as the model reads it; calls of a session come one after another.

        Raises UsageError on a tool that does not exist, arguments that do not fit, or when the tool fails.
        """
        session = self.get(sid)
        names = [tool.name for tool in self.kind.tools]
        if name not in names:
            raise UsageError(f"no tool {name!r}; tools: {', '.join(names) or 'none'}")
        method = getattr(session.instance, name)
        try:
            inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise UsageError(f"tool {name!r}: {error}") from error
        async with session.lock:
            try:
                return str(await _called(method, **arguments))
            except Exception as error:
                raise UsageError(f"tool {name!r} failed: {describe_error(error)}") from error

    async def finish(self, sid: str, answer: str = "") -> float | None:
        """End the episode with the model's answer; its reward, None where the environment gives none.

        Raises UsageError when it fails.
        """
        session = self.get(sid)
        get_reward = getattr(session.instance, "get_reward", None)
        async with session.lock:
            session.finished = True
            if not callable(get_reward):
                return None
            reads = "completion" in inspect.signature(get_reward).parameters
            try:
                told = await _called(get_reward, **({"completion": answer} if reads else {}))
                return as_verdict(told, f"{self.name}.get_reward").score
            except Exception as error:
                raise UsageError(f"get_reward failed: {describe_error(error)}") from error

    async def score_group(self, sids: Sequence[str], completions: Sequence[str]) -> list[Verdict]:
        """The verdicts of the environment's `score_group` on a group's sessions. Raises UsageError when it fails."""
        lost = [sid for sid in sids if sid not in self]
        if lost:
            raise UsageError(f"there is no session {lost[0]!r}; compare a group before its sessions are deleted")
        instances = [self.get(sid).instance for sid in sids]
        function: Any = getattr(self.kind.type, "score_group")  # noqa: B009 - only some have it
        try:
            told = await _called(function, environments=instances, completions=list(completions))
            return as_verdicts(told, len(sids), f"{self.name}.score_group")
        except Exception as error:
            raise UsageError(f"score_group failed: {describe_error(error)}") from error

    @property
    def scores_groups(self) -> bool:
        """Whether the environment compares the rollouts of a group."""
        return callable(getattr(self.kind.type, "score_group", None))

    async def delete(self, sid: str) -> None:
        """Close a session; nothing when there is none."""
        session = self._sessions.pop(sid, None)
        if session is not None:
            await _close(session.instance)

    async def sweep(self) -> None:
        """Close the sessions that are idle for too long."""
        now = time.monotonic()
        for sid in [sid for sid, one in self._sessions.items() if now - one.used_at > self._idle_s]:
            await self.delete(sid)

    async def close(self) -> None:
        """Close all."""
        for sid in list(self._sessions):
            await self.delete(sid)
        while self._spare:
            await _close(self._spare.pop())


async def _called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Await a coroutine function; run any other on a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args, **kwargs)
    found = await asyncio.to_thread(function, *args, **kwargs)
    return await found if inspect.isawaitable(found) else found


async def _close(instance: Any) -> None:
    if callable(getattr(instance, "close", None)):
        await _called(instance.close)


def _joined(prompt: Any, said: Any) -> str:
    """The text of the row's prompt and of what reset said."""
    return "\n\n".join(part for part in (_text_of(prompt), _text_of(said)) if part)


def _text_of(said: Any) -> str:
    """Text, or that of messages, the model's own left out, or of content blocks."""
    if not isinstance(said, list):
        return str(said or "")
    parts = [one for one in said if isinstance(one, Mapping) and one.get("role") != "assistant"]
    return "\n\n".join(
        filter(None, (_text_of(one["content"]) if "content" in one else one.get("text") for one in parts))
    )
