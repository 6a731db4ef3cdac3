"""SQLite's printf() with a bound on what it makes: `printf('%.*c', 800000000, 'x')` works for many seconds in one step,
in which no time limit is asked for."""

from __future__ import annotations

import re
import sqlite3
from typing import Any

_DIRECTIVE = re.compile(r"%[-+ 0#,!]*(\*|\d*)(?:\.(\*|\d*))?[lh]*(.?)", re.DOTALL)
_NAMES = ("printf", "format") if sqlite3.sqlite_version_info >= (3, 38) else ("printf",)


def bound_formatting(connection: sqlite3.Connection, most: int) -> None:
    """Replace printf() and format() of the connection by ones that fail where a width or precision is above `most`."""
    original = sqlite3.connect(":memory:", check_same_thread=False)
    original.text_factory = lambda text: text.decode(errors="replace")

    def bounded(*values: Any) -> Any:
        if values and _widest(_text(values[0]), values[1:]) > most:
            raise ValueError(f"printf() to a width above {most}")
        return original.execute(f"SELECT printf({', '.join('?' * len(values))})", values).fetchone()[0]

    for name in _NAMES:
        connection.create_function(name, -1, bounded, deterministic=True)


def _widest(template: str, values: tuple[Any, ...]) -> float:
    """The largest width or precision that a template asks for, those given as values (`*`) too."""
    given = iter(values)
    widest = 0.0
    for found in _DIRECTIVE.finditer(template):
        for size in (found[1], found[2]):
            widest = max(widest, _number(next(given, 0)) if size == "*" else float(size or 0))
        if found[3] not in ("%", ""):
            next(given, None)
    return widest


def _number(value: Any) -> float:
    """A value as SQLite takes it for a width: text by the number that it begins with, of either sign."""
    if isinstance(value, int | float):
        return abs(float(value))
    begins = re.match(r"\s*[-+]?(\d+)", _text(value))
    return float(begins[1]) if begins else 0.0


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
