"""The tools that a rollout may use: functions that stand alone, and methods of its environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ...plugins.loading import callable_name
from ...scoring.jobs import JobPolicy
from .spec import OnToolError, ToolSpec


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """A tool by name. `function` is None for a method, which is looked up on the rollout's own environment."""

    name: str
    schema: dict[str, Any]
    policy: JobPolicy
    on_error: OnToolError
    function: Callable[..., Any] | None = None

    def bound(self, environment: Any) -> Callable[..., Any] | None:
        """What to call; None where the environment is of another class than the one that was looked at."""
        return self.function if self.function is not None else getattr(environment, self.name, None)


def standalone_tools(specs: Sequence[ToolSpec]) -> tuple[Tool, ...]:
    """Tools of functions. Raises UsageError on one without types or docstring, and on two of one name."""
    from ..chat import function_schema

    made = [
        Tool(callable_name(spec.function), function_schema(spec.function), spec.policy(), spec.on_error, spec.function)
        for spec in specs
    ]
    require_distinct(made, "tools")
    return tuple(made)


def require_distinct(tools: Sequence[Tool], where: str) -> None:
    """Raise UsageError when two tools have one name, for the model could not tell them apart."""
    names = [tool.name for tool in tools]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"{where}: two tools are called {twice[0]!r}; rename one")
