"""Regular expressions of a JSON Schema, matched as ECMA-262 means them and in bounded time.

RE2 matches in linear time and its `$` is the very end of the text. What RE2 cannot express (look-around,
back-references) runs in the `regex` library under a time limit.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

TIMEOUT_S = 0.5


class PatternTrouble(Exception):
    """A pattern that cannot be compiled, or that ran out of time."""


def pattern_found(pattern: str, text: str) -> bool:
    """Whether `pattern` matches anywhere in `text`. Raises PatternTrouble."""
    linear, backtracking = _compiled(pattern)
    if linear is not None:
        return linear.search(text) is not None
    try:
        return backtracking.search(text, timeout=TIMEOUT_S) is not None
    except TimeoutError as error:
        raise PatternTrouble(f"pattern {pattern!r} took longer than {TIMEOUT_S} s") from error


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[Any, Any]:
    import re2
    import regex

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(_for_re2(pattern), options), None
    except re2.error:
        pass  # outside RE2's language; the backtracking engine may know it
    try:
        return None, regex.compile(_for_regex(pattern), regex.ASCII)
    except regex.error as error:
        raise PatternTrouble(f"pattern {pattern!r} is not a regular expression: {error}") from error


def _for_re2(pattern: str) -> str:
    return re.sub(r"\\u([0-9a-fA-F]{4})", r"\\x{\1}", pattern)


def _for_regex(pattern: str) -> str:
    """Python's `$` also matches before a final newline; ECMA-262's does not."""
    return re.sub(r"(\\.)|(\[(?:\\.|[^\]\\])*\])|\$", lambda match: match.group(1) or match.group(2) or r"\Z", pattern)
