"""JSON as RFC 8259 writes it: no NaN, no key twice, no number that a float cannot hold, bounded depth and size."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_CHARACTERS = 2_000_000
MAX_DIGITS = 4_000


class BadJson(ValueError):
    """The text is not one strict JSON value; the message says why."""


def parse_json(text: str) -> Any:
    """The value that `text` is, as Python objects. Raises BadJson, never anything else."""
    stripped = text.strip(_BLANKS)
    value, end = parse_json_prefix(stripped)
    if end != len(stripped):
        raise BadJson(f"extra text at character {end}")
    return value


def parse_json_prefix(text: str, start: int = 0) -> tuple[Any, int]:
    """The JSON value that begins at `start` (after blanks), and the position behind it. Raises BadJson."""
    if len(text) > MAX_CHARACTERS:
        raise BadJson(f"longer than {MAX_CHARACTERS} characters")
    while start < len(text) and text[start] in _BLANKS:
        start += 1
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        raise BadJson(f"{error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise BadJson("nested too deeply") from error


def same_value(left: Any, right: Any) -> bool:
    """JSON equality: numbers by value (3 equals 3.0), true is not 1, objects without order, arrays with it."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_value(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_value, left, right))
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right
    return type(left) is type(right) and bool(left == right)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise BadJson(f"key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return result


def _no_constant(name: str) -> Any:
    raise BadJson(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise BadJson(f"{digits[:40]} is too large for a number")
    return value


def _bounded(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise BadJson(f"an integer of {len(digits)} digits is too long")
    return int(digits)


_BLANKS = " \t\n\r"
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_bounded
)
