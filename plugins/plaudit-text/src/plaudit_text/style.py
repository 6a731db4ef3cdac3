"""Penalties for phrases that a run does not want to see."""

from __future__ import annotations

import re
from typing import Any

from plaudit import UsageError, completion_text

APOLOGIES = (
    r"\bas an ai( language)? model\b",
    r"\bi('m| am) sorry\b",
    r"\bi apologi[sz]e\b",
    r"\bi hope this helps\b",
)


class Style:
    """Minus `penalty` for each match of any of `patterns` (case-insensitive), but never below `floor`.

    `patterns` defaults to stock apologies and closing phrases. A pattern that does not compile is a UsageError.
    """

    def __init__(self, *, patterns: list[str] | None = None, penalty: float = 0.1, floor: float = -0.5) -> None:
        self._patterns = [_compiled(pattern) for pattern in (APOLOGIES if patterns is None else patterns)]
        self._penalty, self._floor = penalty, floor

    def __call__(self, completions: list[Any], **_: Any) -> list[float]:
        return [self._score(completion_text(completion)) for completion in completions]

    def _score(self, text: str) -> float:
        matches = sum(1 for pattern in self._patterns for _ in pattern.finditer(text))
        return max(self._floor, -self._penalty * matches) if matches else 0.0


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"style pattern {pattern!r} is not a regular expression: {error}") from error
