"""Whether the calls that were made are the calls that were expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plaudit import ToolCall, same_value


def parameters_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The JSON schema of each tool's parameters by tool name; OpenAI's `{"function": {…}}` wrapper is opened."""
    schemas = {}
    for tool in tools:
        inner = tool.get("function", tool)
        if isinstance(inner, Mapping) and "name" in inner:
            schemas[str(inner["name"])] = inner.get("parameters") or {}
    return schemas


def same_call(
    made: ToolCall, expected: ToolCall, schemas: Mapping[str, Mapping[str, Any]], *, fold_case: bool = False
) -> bool:
    """The same tool with the same arguments, once defaults of the schema are filled in on both sides."""
    if made.name != expected.name:
        return False
    schema = schemas.get(made.name, {})
    ours, theirs = (_with_defaults(call.arguments, schema) for call in (made, expected))
    return same_value(_folded(ours) if fold_case else ours, _folded(theirs) if fold_case else theirs)


def _with_defaults(value: Any, schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return value
    if isinstance(value, Mapping):
        properties = schema.get("properties") or {}
        defaults = {
            key: sub["default"] for key, sub in properties.items() if isinstance(sub, Mapping) and "default" in sub
        }
        return {key: _with_defaults(inner, properties.get(key)) for key, inner in {**defaults, **value}.items()}
    if isinstance(value, list):
        return [_with_defaults(inner, schema.get("items")) for inner in value]
    return value


def _folded(value: Any) -> Any:
    if isinstance(value, str):
        return value.casefold()
    if isinstance(value, Mapping):
        return {key: _folded(inner) for key, inner in value.items()}
    return [_folded(inner) for inner in value] if isinstance(value, list) else value


def difference(
    made: Sequence[ToolCall],
    expected: Sequence[ToolCall],
    schemas: Mapping[str, Mapping[str, Any]],
    *,
    ordered: bool,
    fold_case: bool = False,
) -> str | None:
    """Why the calls differ, or None: as many, each one expected, in order where `ordered`."""
    if len(made) != len(expected):
        return f"{len(made)} calls made, {len(expected)} expected"
    open_calls = list(expected)
    for call in made:
        candidates = open_calls[:1] if ordered else open_calls
        match = next((one for one in candidates if same_call(call, one, schemas, fold_case=fold_case)), None)
        if match is None:
            return f"call of {call.name!r} with {dict(call.arguments)!r} is not expected here"[:300]
        open_calls.remove(match)
    return None
