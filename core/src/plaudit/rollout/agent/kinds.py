"""What an environment class offers, found out from one instance before anything is trained."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ...plugins.importing import describe_error
from ...plugins.loading import callable_name
from .replies import Replies, replies_of
from .spec import EnvironmentSpec
from .tools import Tool

RESERVED = ("reset", "get_reward", "score_group", "answer_turn", "close")
"""Methods that the trainer calls; the model never does."""


@dataclass(frozen=True, slots=True, eq=False)
class EnvironmentKind:
    """An environment of a run. `name`: what the `environment` column calls it, None when it is the only one.

    `reset_names`: the arguments that `reset` takes by name, `reset_required` those without a default;
    `reset_takes_any`: it takes every column. `replies`: how it answers turns itself, None when it does not.
    """

    name: str | None
    spec: EnvironmentSpec
    type: type
    tools: tuple[Tool, ...]
    reset_names: frozenset[str]
    reset_required: frozenset[str]
    reset_takes_any: bool
    replies: Replies | None = None

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"environment {self.type.__name__!r}"

    @property
    def closes(self) -> bool:
        """Whether instances are to be closed."""
        return callable(getattr(self.type, "close", None))

    @property
    def scores(self) -> bool:
        """Whether it gives its rollouts a reward."""
        return any(callable(getattr(self.type, name, None)) for name in ("get_reward", "score_group"))

    def reset_arguments(self, columns: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """The columns that `reset` takes, and the group's `seed` if it names one that the row does not have."""
        found = {name: columns[name] for name in columns if self.reset_takes_any or name in self.reset_names}
        if "seed" in self.reset_names and "seed" not in found:
            found["seed"] = seed
        return found

    def check_columns(self, columns: Iterable[str]) -> None:
        """Raise UsageError when `reset` needs a column that rows do not have."""
        present = list(columns)
        missing = sorted(self.reset_required - {*present, "seed"})
        if missing:
            raise UsageError(
                f"{self.label}: reset needs the column {missing[0]!r}, which the rows do not have "
                f"(they have: {', '.join(sorted(present)) or 'none'})"
            )


def probe(name: str | None, spec: EnvironmentSpec) -> tuple[EnvironmentKind, Any]:
    """The kind of a spec, with the instance that was made to look at it.

    Raises UsageError, which names the class, when it cannot be made, has no reset, or has a tool without types or
    docstring.
    """
    try:
        instance = spec.factory()
    except Exception as error:
        label = callable_name(spec.factory)
        raise UsageError(
            f"environment {label!r} cannot be made: its __init__ failed: {describe_error(error)}"
        ) from error
    if inspect.isawaitable(instance):
        raise UsageError(f"environment {callable_name(spec.factory)!r} is made by a coroutine; use reset for that")
    made = type(instance)
    reset = getattr(instance, "reset", None)
    if not callable(reset):
        raise UsageError(f"environment {made.__name__!r} has no reset(**row); every rollout begins with it")
    _check_group_scoring(made)
    parameters = inspect.signature(reset).parameters.values()
    for one in parameters:
        if one.kind is one.POSITIONAL_ONLY:
            raise UsageError(
                f"environment {made.__name__!r}: reset takes {one.name!r} by position; columns come by name"
            )
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    kind = EnvironmentKind(
        name=name,
        spec=spec,
        type=made,
        tools=_tools(instance, spec),
        reset_names=frozenset(p.name for p in named),
        reset_required=frozenset(p.name for p in named if p.default is p.empty),
        reset_takes_any=any(p.kind is p.VAR_KEYWORD for p in parameters),
        replies=replies_of(instance, spec),
    )
    return kind, instance


def _check_group_scoring(made: type) -> None:
    """Raise UsageError on a `score_group` that cannot be called on the class, as it is."""
    score_group = getattr(made, "score_group", None)
    if not callable(score_group):
        return
    try:
        inspect.signature(score_group).bind(environments=[], completions=[])
    except TypeError as error:
        raise UsageError(
            f"environment {made.__name__!r}: score_group is to be a class method "
            f"score_group(cls, environments, completions): {error}"
        ) from None


def tool_names(instance: Any, listed: Iterable[str] | None = None) -> tuple[str, ...]:
    """The methods that are tools: those `listed`, else those in its attribute `tools`, else every public method.

    Raises UsageError on a listed name that is no such method.
    """
    made = type(instance)
    # Read from the class, so that no property runs.
    methods = [name for name, _ in inspect.getmembers(made, inspect.isfunction) if not name.startswith("_")]
    declared = None if "tools" in methods else inspect.getattr_static(instance, "tools", None)
    if listed is None and isinstance(declared, str):
        raise UsageError(f"environment {made.__name__!r}: tools = {declared!r}; expected a list of names")
    chosen = listed if listed is not None else declared if isinstance(declared, (list, tuple)) else None
    if chosen is None:
        return tuple(name for name in methods if name not in RESERVED)
    for name in chosen:
        if name not in methods or name in RESERVED:
            offered = ", ".join(method for method in methods if method not in RESERVED) or "none"
            raise UsageError(f"environment {made.__name__!r} has no tool {name!r}; its public methods: {offered}")
    return tuple(chosen)


def _tools(instance: Any, spec: EnvironmentSpec) -> tuple[Tool, ...]:
    """Its methods that are tools; or the tools of its `tool_schemas`, whose calls it answers itself."""
    schemas = getattr(instance, "tool_schemas", None)
    if schemas is None:
        return tuple(_tool(instance, name, spec) for name in tool_names(instance, spec.tools))
    label = f"environment {type(instance).__name__!r}"
    if spec.tools is not None:
        raise UsageError(f"{label} has tool_schemas, so no method of it is a tool; leave tools = {spec.tools} out")
    if not isinstance(schemas, (list, tuple)):
        raise UsageError(f"{label}: tool_schemas is a {type(schemas).__name__}; expected a list of function schemas")
    return tuple(Tool(_schema_name(label, one), one, spec.tool_policy(), spec.on_error) for one in schemas)


def _schema_name(label: str, schema: Any) -> str:
    function = schema.get("function") if isinstance(schema, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if isinstance(name, str) and name:
        return name
    raise UsageError(
        f"{label}: tool_schemas has {schema!r:.80}; expected "
        '{"type": "function", "function": {"name": …, "description": …, "parameters": …}}'
    )


def _tool(instance: Any, name: str, spec: EnvironmentSpec) -> Tool:
    from ..chat import function_schema

    try:
        schema = function_schema(getattr(instance, name))
    except UsageError as error:
        raise UsageError(f"environment {type(instance).__name__!r}: {error}") from error
    return Tool(name, schema, spec.tool_policy(), spec.on_error)
