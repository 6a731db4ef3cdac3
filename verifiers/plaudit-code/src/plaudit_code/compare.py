"""Comparing what a program gave with what was expected, in the parent, on plain data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from plaudit_code.inside.plain import Opaque

Tolerance = float | None
"""None compares exactly; a number allows that much difference, relative or absolute."""


def same_value(value: Any, expected: Any, tolerance: Tolerance = None) -> bool:
    """Whether a returned value is the expected one.

    Lists and tuples agree by their items; numbers by value (False is 0, but None is nothing else); text keys of the
    expected dict also mean numbers, which JSON cannot write as keys. An opaque value equals nothing.
    """
    if isinstance(value, Opaque) or isinstance(expected, Opaque):
        return False
    if isinstance(expected, int | float) and isinstance(value, int | float):
        return _same_number(value, expected, tolerance)
    if isinstance(expected, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(expected)
            and all(same_value(one, want, tolerance) for one, want in zip(value, expected, strict=True))
        )
    if isinstance(expected, dict):
        return isinstance(value, dict) and _same_dict(value, expected, tolerance)
    if isinstance(expected, set | frozenset):
        return isinstance(value, set | frozenset) and _same_set(value, expected, tolerance)
    return type(value) is type(expected) and bool(value == expected)


def _same_number(value: float, expected: float, tolerance: Tolerance) -> bool:
    if value == expected:
        return True
    if tolerance is None:
        return False
    try:
        return math.isfinite(value) and math.isclose(value, expected, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:
        return False


def _same_dict(value: dict[Any, Any], expected: dict[Any, Any], tolerance: Tolerance) -> bool:
    if len(value) != len(expected):
        return False
    by_text = {str(key) if isinstance(key, int | float) else key: one for key, one in value.items()}
    pairs = ((value[key] if key in value else by_text.get(key, _MISSING), want) for key, want in expected.items())
    return all(one is not _MISSING and same_value(one, want, tolerance) for one, want in pairs)


_MISSING = Opaque("nothing")


def _same_set(value: set[Any] | frozenset[Any], expected: set[Any] | frozenset[Any], tolerance: Tolerance) -> bool:
    if len(value) != len(expected):
        return False
    rest = list(expected)
    for one in value:
        match = next((want for want in rest if same_value(one, want, tolerance)), _MISSING)
        if match is _MISSING:
            return False
        rest.remove(match)
    return True


def same_output(output: str, expected: str, how: str) -> bool:
    """Whether stdout is the expected one. `how`: tokens, lines, exact, unordered (lines), or float:TOLERANCE.

    Raises ValueError on any other `how`.
    """
    if how == "exact":
        return output == expected
    if how == "tokens":
        return output.split() == expected.split()
    if how == "lines":
        return _lines(output) == _lines(expected)
    if how == "unordered":
        return sorted(_lines(output)) == sorted(_lines(expected))
    tolerance = tolerance_of(how)
    if tolerance is None:
        raise ValueError(f"compare must be tokens, lines, exact, unordered or float:TOLERANCE; got {how!r}")
    return _same_tokens(output.split(), expected.split(), tolerance)


def tolerance_of(how: str | None) -> Tolerance:
    """The tolerance in "float:1e-6", or None. Raises ValueError on a tolerance that is no number."""
    kind, _, number = (how or "").partition(":")
    return float(number or "1e-6") if kind == "float" else None


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_tokens(tokens: Sequence[str], expected: Sequence[str], tolerance: float) -> bool:
    return len(tokens) == len(expected) and all(
        token == want or _same_written(token, want, tolerance) for token, want in zip(tokens, expected, strict=True)
    )


def _same_written(token: str, expected: str, tolerance: float) -> bool:
    if len(token) > 400 or len(expected) > 400 or "_" in token:
        return False
    try:
        return _same_number(float(token), float(expected), tolerance)
    except ValueError:
        return False
