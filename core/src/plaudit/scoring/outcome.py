"""One call of a reward, wherever it runs: the request it is given and the outcome it comes to. Picklable, no torch."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from plaudit.errors import ContractError
from plaudit.plugins.component import Reward
from plaudit.scoring.errors import LengthError, LogError
from plaudit.scoring.normalise import Value, normalised
from plaudit.scoring.recorder import Recorder

MESSAGE_LIMIT = 500


@dataclass(slots=True)
class Request:
    """`arguments` of a reward function over `count` rollouts, or (`completion`, `row`) of a verifier, whose count is 1.

    `name` is the reward's name in the run, which messages use. `logging`: which of log_extra and log_metric it takes.
    """

    name: str
    count: int
    arguments: dict[str, Any] | None = None
    completion: Any = None
    row: Mapping[str, Any] | None = None
    logging: tuple[str, ...] = ()
    reserved: frozenset[str] = frozenset()


@dataclass(slots=True)
class Failure:
    """Why a call, or one of its values, came to nothing.

    `kind`: the exception's class, or timeout, killed, memory, infinite, contract, unpicklable, breaker. `always`: it
    raises under every policy. `error` is the exception, None when it happened in another process.
    """

    kind: str
    message: str
    retryable: bool = False
    always: bool = False
    error: BaseException | None = None


@dataclass(slots=True)
class Outcome:
    """`values`, one a rollout, and what the call logged; or the `failure` of the whole call."""

    values: list[Value] = field(default_factory=list)
    columns: dict[str, list[Any]] = field(default_factory=dict)
    metrics: list[tuple[str, float]] = field(default_factory=list)
    failure: Failure | None = None


def perform(reward: Reward, request: Request, retry_on: tuple[type[BaseException], ...]) -> Outcome:
    """Run a synchronous reward. Never raises: not even SystemExit or KeyboardInterrupt of the reward gets out."""
    try:
        if request.arguments is None:
            return Outcome(normalised([reward.judge(request.completion, request.row or {})], 1, request.name))
        recorder = _recorder(request)
        returned = reward.component.target(**request.arguments)
        if type(returned) is not list and inspect.iscoroutine(returned):
            returned = _run_coroutine(returned)
        return _outcome(returned, request, recorder)
    except BaseException as error:
        return Outcome(failure=failure_of(error, retry_on))


async def perform_async(reward: Reward, request: Request, retry_on: tuple[type[BaseException], ...]) -> Outcome:
    """Run an asynchronous reward. Only a cancellation of the task itself gets out."""
    try:
        if request.arguments is None:
            verdict: Any = await reward.judge(request.completion, request.row or {})  # type: ignore[misc]
            return Outcome(normalised([verdict], 1, request.name))
        recorder = _recorder(request)
        return _outcome(await reward.component.target(**request.arguments), request, recorder)
    except BaseException as error:
        return Outcome(failure=failure_of(error, retry_on))


def _recorder(request: Request) -> Recorder | None:
    """Add the logging functions that the reward takes to its arguments."""
    if not request.logging or request.arguments is None:
        return None
    recorder = Recorder(request.name, request.count, request.reserved)
    for name in request.logging:
        request.arguments[name] = getattr(recorder, name)
    return recorder


def _outcome(returned: Any, request: Request, recorder: Recorder | None) -> Outcome:
    values = normalised(returned, request.count, request.name)
    return Outcome(values) if recorder is None else Outcome(values, recorder.columns, recorder.metrics)


def failure_of(error: BaseException, retry_on: tuple[type[BaseException], ...]) -> Failure:
    """The failure that an exception is."""
    kind = "memory" if isinstance(error, MemoryError) else type(error).__name__
    if isinstance(error, ContractError) and not isinstance(error, (LengthError, LogError)):
        kind = "contract"
    return Failure(
        kind=kind,
        message=described(error),
        retryable=isinstance(error, retry_on),
        always=isinstance(error, (LengthError, LogError)),
        error=error,
    )


def described(error: BaseException) -> str:
    """`ValueError: text`, cut to a readable length; safe on exceptions that cannot print themselves."""
    try:
        text = str(error)
    except BaseException:
        text = "(its message cannot be read)"
    text = text.encode("utf-8", "replace").decode("utf-8", "replace")
    if len(text) > MESSAGE_LIMIT:
        text = text[:MESSAGE_LIMIT] + " …"
    if isinstance(error, ContractError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _run_coroutine(coroutine: Any) -> Any:
    """A synchronous callable that returned a coroutine (a lambda around an async function): run it to its end."""
    return asyncio.run(coroutine)
