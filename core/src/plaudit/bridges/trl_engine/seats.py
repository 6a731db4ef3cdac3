"""The environments and tools of a run as TRL holds them: classes with `reset` and a method for each tool."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from plaudit.errors import PlauditError, UsageError
from plaudit.rollout.agent.contents import cleaned, is_messages, readable
from plaudit.rollout.agent.kinds import EnvironmentKind
from plaudit.rollout.agent.resets import ResetError, observation_fault
from plaudit.rollout.agent.tools import Tool
from plaudit.rollout.agent.turns import ToolError, failure_text
from plaudit.scoring.inputs import copied
from plaudit.scoring.jobs import Job, JobPolicy, JobResult, Jobs

from .rows import ROW

CLOSE_S = 30.0


class CallFailed(PlauditError):
    """A tool failed; TRL hands the message to the model."""


class Seat:
    """One of TRL's instances of an environment, over one of ours, which is made by the first reset.

    `instance`: ours; None before a reset and where the row has no environment. `gave_up`: why the rollout is given up.
    `fatal`: what ends the run. `seed_of`: the seed that a row's number stands for. `joins`: text blocks become text,
    since the model sees no others.
    """

    def __init__(
        self, kind: EnvironmentKind | None, jobs: Jobs, seed_of: Callable[[Any], int], *, joins: bool, routed: bool
    ) -> None:
        self._kind, self._jobs, self._seed_of, self._joins, self._routed = kind, jobs, seed_of, joins, routed
        self.instance: Any = None
        self.gave_up: str | None = None
        self.fatal: Exception | None = None
        self._stale = False

    def reset(self, row: Mapping[str, Any]) -> str | list[Any] | None:
        """Begin a rollout: TRL puts what this returns behind the prompt."""
        self.gave_up, self.fatal = None, None
        if self._kind is None:
            return None
        if self._stale:
            self.close()
        policy = self._kind.spec.reset_policy()
        if self.instance is None:
            made = self._run(self._kind.spec.factory, {}, f"__init__ of {self._kind.label}", policy)
            if made.failure is not None:
                self._fail(f"__init__ failed: {made.failure.message}")
                return None
            self.instance = made.value
        arguments = self._kind.reset_arguments(self._columns(row), self._seed_of(row.get(ROW)))
        found = self._run(self.instance.reset, copied(arguments), f"reset of {self._kind.label}", policy)
        if found.failure is not None:
            self._fail(f"reset failed: {found.failure.message}")
            return None
        if (fault := observation_fault(found.value)) is not None:
            self._fail(fault)
            return None
        return self._observation(cleaned(found.value))

    def call(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """One call of a tool that is a method. Raises what the model is to read."""
        return self._answer(tool, self._run(*self._asked(tool, arguments)))

    async def call_async(self, tool: Tool, arguments: Mapping[str, Any]) -> Any:
        """The same, without holding TRL's loop."""
        result: Future[JobResult] = self._start(*self._asked(tool, arguments))
        return self._answer(tool, await asyncio.wrap_future(result))

    def close(self) -> None:
        """Close the instance, if it can be; the next reset makes another."""
        instance, self.instance, self._stale = self.instance, None, False
        if instance is not None and self._kind is not None and self._kind.closes and not self._jobs.closed:
            self._run(instance.close, {}, f"close of {self._kind.label}", JobPolicy(CLOSE_S))

    def _columns(self, row: Mapping[str, Any]) -> dict[str, Any]:
        from plaudit.grpo.generating.agent_rows import EMPTY_PROMPT

        hidden = {ROW, *({"environment"} if self._routed else ())}
        hidden |= {"prompt"} if row.get("prompt") == EMPTY_PROMPT else set()
        return {name: value for name, value in row.items() if name not in hidden}

    def _observation(self, found: Any) -> Any:
        if not isinstance(found, list):
            return found
        if is_messages(found):
            assert self._kind is not None
            raise UsageError(
                f"{self._kind.label}: reset gives messages, which TRL cannot put behind a prompt; give text or blocks"
            )
        try:
            return joined_text(found) if self._joins else found
        except CallFailed as error:
            self._fail(str(error))
            return None

    def _asked(self, tool: Tool, arguments: Mapping[str, Any]) -> tuple[Any, Any, str, JobPolicy]:
        if self.gave_up or self.fatal:
            raise CallFailed(self.gave_up or str(self.fatal))
        return tool.bound(self.instance), copied(dict(arguments)), f"tool {tool.name!r}", tool.policy

    def _answer(self, tool: Tool, result: JobResult) -> Any:
        result = readable(result)
        failure = result.failure
        if failure is None:
            return joined_text(result.value) if self._joins and type(result.value) is list else result.value
        self._stale |= failure.kind in ("timeout", "lost")
        if tool.on_error == "abort":
            self.gave_up = f"tool {tool.name!r}: {failure.message}"
        elif tool.on_error == "raise":
            self.fatal = ToolError(f"tool {tool.name!r} failed: {failure.message} (on_error = raise)")
            self.fatal.__cause__ = failure.error
        raise CallFailed(failure_text(failure))

    def _fail(self, message: str) -> None:
        self._stale = True
        assert self._kind is not None
        if self._kind.spec.on_error == "raise":
            raise ResetError(f"{self._kind.label}: {message} (on_error = raise)")
        self.gave_up = f"{self._kind.label}: {message}"

    def _start(self, function: Any, arguments: Any, label: str, policy: JobPolicy) -> Future[JobResult]:
        return started(self._jobs, function, arguments, label, policy)

    def _run(self, function: Any, arguments: Any, label: str, policy: JobPolicy) -> JobResult:
        return self._start(function, arguments, label, policy).result()


def started(
    jobs: Jobs, function: Callable[..., Any], arguments: Mapping[str, Any], label: str, policy: JobPolicy
) -> Future[JobResult]:
    """A call under its policy, as a future."""
    result: Future[JobResult] = Future()
    jobs.submit(Job(function, arguments, label, policy, result.set_result))
    return result


def seat_class(kind: EnvironmentKind | None, make: Callable[[EnvironmentKind | None], Seat]) -> type:
    """A class as TRL's `environment_factory` takes it: `reset`, and the tools of the kind. It has no `close`."""

    def __init__(self: Any) -> None:
        self._seat = make(kind)

    def reset(self: Any, **row: Any) -> Any:
        return self._seat.reset(row)

    methods = {} if kind is None else {tool.name: _method(kind, tool) for tool in kind.tools}
    name = "NoEnvironment" if kind is None else kind.type.__name__
    return type(name, (), {"__init__": __init__, "reset": reset, **methods})


def _method(kind: EnvironmentKind, tool: Tool) -> Callable[..., Any]:
    def call(self: Any, **arguments: Any) -> Any:
        return self._seat.call(tool, arguments)

    async def call_async(self: Any, **arguments: Any) -> Any:
        return await self._seat.call_async(tool, arguments)

    method = call_async if inspect.iscoroutinefunction(getattr(kind.type, tool.name)) else call
    method.__name__ = method.__qualname__ = tool.name
    return method


def standalone(tool: Tool, jobs: Jobs, *, joins: bool) -> Callable[..., Any]:
    """A tool that no environment owns, as TRL takes it."""
    assert tool.function is not None

    def answer(result: JobResult) -> Any:
        result = readable(result)
        if result.failure is not None:
            raise CallFailed(failure_text(result.failure))
        return joined_text(result.value) if joins and type(result.value) is list else result.value

    start = functools.partial(started, jobs, tool.function, label=f"tool {tool.name!r}", policy=tool.policy)

    def call(**arguments: Any) -> Any:
        return answer(start(arguments=copied(arguments)).result())

    async def call_async(**arguments: Any) -> Any:
        return answer(await asyncio.wrap_future(start(arguments=copied(arguments))))

    function = call_async if inspect.iscoroutinefunction(tool.function) else call
    function.__name__ = tool.name
    return function


def joined_text(blocks: list[Any]) -> Any:
    """Text blocks as one text. Raises CallFailed on a block of another kind, which a text model cannot read."""
    for block in blocks:
        if not isinstance(block, Mapping) or block.get("type", "text") != "text":
            raise CallFailed(f"{block!r:.60} is no block of text, and the model of this run reads nothing else")
    return "".join(block.get("text") or "" for block in blocks)
