"""Whether a TOML value fits a type annotation, and what to say when it does not."""

from __future__ import annotations

import difflib
import types
from collections.abc import Collection, Mapping
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin

_WORDS = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    dict: "a table",
    Mapping: "a table",
    list: "a list",
    tuple: "a list",
}


def fits(value: Any, annotation: Any) -> bool:
    """Whether `value` fits. An integer fits float, a string an Enum with that value; true fits only bool."""
    if annotation is Any:
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in arguments)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin in (list, tuple):
        return isinstance(value, list) and all(fits(item, arguments[0]) for item in value)
    if origin in (dict, Mapping):
        return isinstance(value, Mapping) and all(fits(item, arguments[1]) for item in value.values())
    return _fits_plain(value, annotation)


def _fits_plain(value: Any, annotation: Any) -> bool:
    if annotation is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return value in [member.value for member in annotation]
    return isinstance(annotation, type) and isinstance(value, annotation)


def describe(annotation: Any) -> str:
    """What fits, in words: `an integer`, `one of "a", "b"`, `a list of strings`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        kept = [describe(one) for one in arguments if one is not type(None)]
        return " or ".join(dict.fromkeys(kept))
    if origin is Literal:
        return "one of " + ", ".join(show(choice) for choice in arguments)
    if origin in (list, tuple):
        return f"a list, each {describe(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "one of " + ", ".join(show(member.value) for member in annotation)
    return str(_WORDS.get(origin or annotation) or getattr(annotation, "__name__", annotation))


def show(value: Any, limit: int = 60) -> str:
    """A value as TOML would write it, cut to `limit` characters."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, str):
        text = '"' + value.replace("\n", "\\n") + '"'
    else:
        text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def closest(name: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?` where a known name is close, else an empty string."""
    match = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{match[0]}'?" if match else ""
