"""One call of a reward, wherever it runs: the request it is given and the outcome it comes to. Picklable, no torch."""

from __future__ import annotations

import asyncio
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

    `name` is the reward's name in the run, which messages use.
    """

    name: str
    count: int
    arguments: dict[str, Any] | None = None
    completion: Any = None
    row: Mapping[str, Any] | None = None
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
    recorder = Recorder(request.name, request.count, request.reserved)
    try:
        if request.arguments is None:
            returned: Any = [reward.judge(request.completion, request.row or {})]
        else:
            returned = reward.component.target(**with_logging(reward, request.arguments, recorder))
            if asyncio.iscoroutine(returned):
                returned = _run_coroutine(returned)
        return Outcome(normalised(returned, request.count, request.name), recorder.columns, recorder.metrics)
    except BaseException as error:
        return Outcome(failure=failure_of(error, retry_on))


async def perform_async(reward: Reward, request: Request, retry_on: tuple[type[BaseException], ...]) -> Outcome:
    """Run an asynchronous reward. Only a cancellation of the task itself gets out."""
    recorder = Recorder(request.name, request.count, request.reserved)
    try:
        if request.arguments is None:
            returned: Any = [await reward.judge(request.completion, request.row or {})]  # type: ignore[misc]
        else:
            returned = await reward.component.target(**with_logging(reward, request.arguments, recorder))
        return Outcome(normalised(returned, request.count, request.name), recorder.columns, recorder.metrics)
    except BaseException as error:
        return Outcome(failure=failure_of(error, retry_on))


def with_logging(reward: Reward, arguments: dict[str, Any], recorder: Recorder) -> dict[str, Any]:
    """The arguments with the logging functions, where the signature takes them; checked against what it requires."""
    signature = reward.component.signature
    if signature.takes_any or "log_extra" in signature.names:
        arguments["log_extra"] = recorder.log_extra
    if signature.takes_any or "log_metric" in signature.names:
        arguments["log_metric"] = recorder.log_metric
    return reward.component.select(arguments) if signature.required - arguments.keys() else arguments


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
