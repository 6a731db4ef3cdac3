"""`check_environment`: whether an environment class can be reset, used through its tools, and closed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from plaudit.plugins.loading import load_environment
from plaudit.rollout.agent.kinds import tool_names
from plaudit.testing.conformance import Report, Skip, finished, run_checks


def check_environment(
    environment: str | Callable[..., Any],
    *,
    row: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Report:
    """Check an environment by name, reference or class; `row` is what `reset(**row)` gets.

    Checks: instances are made and reset, more than once; reset gives text, messages or None; every tool (a public
    method) has typed arguments and a Google docstring that describes them; get_reward gives a finite number or None;
    two instances share nothing that a reset of one changes; close can be called twice. Raises AssertionError.
    """
    factory = environment if callable(environment) else load_environment(environment, options=dict(options or {}))
    given = dict(row or {})
    checks: dict[str, Callable[[], None]] = {
        "reset": lambda: _resets(factory, given),
        "tools": lambda: _tools(factory),
        "reward": lambda: _rewards(factory, given),
        "instances are their own": lambda: _apart(factory, given),
        "close": lambda: _closes(factory, given),
    }
    return run_checks(checks, f"environment '{getattr(environment, '__name__', environment)}'")


def tools_of(instance: Any) -> dict[str, Callable[..., Any]]:
    """The methods that the model may call: those its attribute `tools` names, else every public one."""
    return {name: getattr(instance, name) for name in tool_names(instance)}


def _resets(factory: Callable[..., Any], row: Mapping[str, Any]) -> None:
    instance = factory()
    assert hasattr(instance, "reset"), "it has no method reset(**row)"
    for attempt in ("first", "second"):
        observation = finished(instance.reset(**row))
        assert observation is None or isinstance(observation, str | list), (
            f"the {attempt} reset gave {type(observation).__name__}; expected text, messages or None"
        )


def _tools(factory: Callable[..., Any]) -> None:
    tools = tools_of(factory())
    if not tools:
        raise Skip("it has no tools")
    for name, method in tools.items():
        documentation = inspect.getdoc(method) or ""
        assert documentation, f"tool {name} has no docstring; the model reads it"
        hints = get_type_hints(method)
        for parameter in inspect.signature(method).parameters:
            assert parameter in hints, f"tool {name}: argument {parameter} has no type"
            described = re.search(rf"^\s*{parameter}(?: \([^)]*\))?:", documentation, re.MULTILINE)
            assert described, f"tool {name}: argument {parameter} is not described under Args: in its docstring"


def _rewards(factory: Callable[..., Any], row: Mapping[str, Any]) -> None:
    instance = factory()
    if not hasattr(instance, "get_reward"):
        raise Skip("it has no get_reward")
    finished(instance.reset(**row))
    score = finished(instance.get_reward())
    number = isinstance(score, int | float) and score == score and abs(score) != float("inf")
    assert score is None or number, f"get_reward gave {score!r}; expected a finite number or None"


def _apart(factory: Callable[..., Any], row: Mapping[str, Any]) -> None:
    one, other = factory(), factory()
    assert one is not other, "the factory gives one instance twice; each rollout needs its own"
    finished(one.reset(**row))
    finished(other.reset(**row))
    shared = [
        name
        for name, value in vars(one).items()
        if isinstance(value, list | dict | set) and vars(other).get(name) is value
    ]
    assert not shared, f"two instances share the mutable attribute {shared[0]!r}"


def _closes(factory: Callable[..., Any], row: Mapping[str, Any]) -> None:
    instance = factory()
    if not hasattr(instance, "close"):
        raise Skip("it has no close")
    finished(instance.reset(**row))
    for _ in range(2):
        finished(instance.close())
