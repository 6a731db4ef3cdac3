"""What is asked of a tool or an environment in a run, and how its calls are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ...errors import UsageError
from ...plugins.loading import callable_name
from ...scoring.jobs import JobPolicy
from ...scoring.policy import DEFAULT_RETRIES, DEFAULT_TIMEOUT_S

OnToolError = Literal["answer", "abort", "raise"]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A function that the model may call in every rollout, synchronous (on a thread) or asynchronous.

    It needs type hints and a Google docstring. `timeout_s`: of one try, 0 = no limit. `retries`: how often a call that
    timed out, or raised ConnectionError or TimeoutError, is made again. `on_error`: what a failed call does.
    "answer": the model reads the error. "abort": the rollout is given up. "raise": the run ends.
    """

    function: Callable[..., Any]
    timeout_s: float = DEFAULT_TIMEOUT_S
    retries: int = 0
    backoff_s: float = 0.5
    on_error: OnToolError = "answer"

    def __post_init__(self) -> None:
        """Raise UsageError on what is no function, or a value that is not one of the choices."""
        name = callable_name(self.function)
        if not callable(self.function):
            raise UsageError(f"the tool {self.function!r} is a {type(self.function).__name__}; expected a function")
        check_policy(f"tool {name!r}", self.policy, self.on_error)

    def policy(self) -> JobPolicy:
        """How a call is run."""
        return JobPolicy(self.timeout_s, self.retries, self.backoff_s)


@dataclass(frozen=True, slots=True)
class EnvironmentSpec:
    """An environment: `factory()` makes an instance, and a rollout has one for itself.

    `tools`: the names of the methods that the model may call; None = the class's attribute `tools`, else every public
    method but `reset`, `get_reward` and `close`. `timeout_s`: of one tool call or `get_reward`, 0 = no limit.
    `reset_timeout_s`: of making an instance and of a reset. `retries`: of these two; `tool_retries`: of a tool call; on
    what, see `ToolSpec`. `on_error`: what a failed tool call does, as in `ToolSpec`; a failed reset gives the
    rollout up, and with "raise" ends the run.
    """

    factory: Callable[[], Any]
    tools: tuple[str, ...] | None = None
    timeout_s: float = DEFAULT_TIMEOUT_S
    reset_timeout_s: float = DEFAULT_TIMEOUT_S
    retries: int = DEFAULT_RETRIES
    tool_retries: int = 0
    backoff_s: float = 0.5
    on_error: OnToolError = "answer"

    def __post_init__(self) -> None:
        """Raise UsageError on what makes no environment, or a value that is not one of the choices."""
        if not callable(self.factory):
            raise UsageError(
                f"the environment {self.factory!r} is a {type(self.factory).__name__}; expected a class, or a function "
                "that makes an instance"
            )
        label = f"environment {callable_name(self.factory)!r}"
        check_policy(label, self.tool_policy, self.on_error)
        check_policy(label, self.reset_policy, self.on_error)

    def tool_policy(self) -> JobPolicy:
        """How a tool call is run."""
        return JobPolicy(self.timeout_s, self.tool_retries, self.backoff_s)

    def reset_policy(self) -> JobPolicy:
        """How an instance is made and reset."""
        return JobPolicy(self.reset_timeout_s, self.retries, self.backoff_s)


def check_policy(label: str, policy: Callable[[], JobPolicy], on_error: str) -> None:
    """Raise UsageError, which begins with the label, on a policy that cannot be."""
    try:
        policy()
    except UsageError as error:
        raise UsageError(f"{label}: {error}") from None
    if on_error not in get_args(OnToolError):
        raise UsageError(f"{label}: on_error = {on_error!r}; expected one of {', '.join(get_args(OnToolError))}")


def environment_spec_of(given: EnvironmentSpec | Callable[[], Any] | str) -> EnvironmentSpec:
    """The spec of a class, a factory, or the name of an installed environment. Raises UsageError or PluginError."""
    if isinstance(given, EnvironmentSpec):
        return given
    if isinstance(given, str):
        from ...plugins.loading import load_environment

        return EnvironmentSpec(load_environment(given))
    return EnvironmentSpec(given)


def tool_spec_of(given: ToolSpec | Callable[..., Any]) -> ToolSpec:
    """The spec of a function. Raises UsageError."""
    return given if isinstance(given, ToolSpec) else ToolSpec(given)
