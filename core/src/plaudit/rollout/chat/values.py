"""Argument values that a model wrote as plain text, turned into what the tool's schema says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...strict_json import BadJson, parse_json

Types = Mapping[str, Mapping[str, Any]]
"""The schema of each argument by its name, by tool name."""

_LITERALS = {"True": True, "False": False, "None": None}  # as Jinja writes them in some templates


def types_of(schemas: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The schemas of the arguments by tool name; OpenAI's `{"function": {…}}` wrapper is opened."""
    found = {}
    for schema in schemas:
        function = schema.get("function", schema)
        if isinstance(function, Mapping) and "name" in function:
            found[str(function["name"])] = (function.get("parameters") or {}).get("properties") or {}
    return found


def typed(written: str, types: Types, name: str, key: str) -> Any:
    """The value of argument `key` of tool `name`: text where the schema says string, else JSON where it is JSON."""
    schema = types.get(name, {}).get(key)
    if isinstance(schema, Mapping) and _only_text(schema):
        return written
    if written.strip() in _LITERALS:
        return _LITERALS[written.strip()]
    try:
        return parse_json(written)
    except BadJson:
        return written


def _only_text(schema: Mapping[str, Any]) -> bool:
    if schema.get("nullable"):
        return False
    return schema.get("type") in ("string", ["string"]) or (
        "type" not in schema and bool(schema.get("enum")) and all(isinstance(one, str) for one in schema["enum"])
    )
