"""Running one query on a throw-away copy of a database: read-only, with limits on time, rows and cell size."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .formatting import bound_formatting

MAX_CELL_BYTES = 1_000_000
_OPERATIONS_BETWEEN_CHECKS = 10_000
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}


@dataclass(frozen=True, slots=True)
class Result:
    """The rows of a query and its number of columns."""

    columns: int
    rows: tuple[tuple[Any, ...], ...]


class QueryFailed(Exception):
    """The query did not give a result: a syntax error, a forbidden action, or a limit. The message says which."""


class BadDatabase(Exception):
    """The database itself could not be set up."""


def run_query(
    source: tuple[str, ...] | str, query: str, *, timeout_s: float, max_rows: int, reverse: bool = False
) -> Result:
    """The result of `query`. `source`: the statements that make the database, or the path of a SQLite file.

    `reverse` asks SQLite to visit rows that no ORDER BY orders the other way round, which shows what is not ordered.
    Raises QueryFailed and BadDatabase. Nothing is written and no other file is opened.
    """
    with _connection(source) as connection:
        if reverse:
            connection.execute("PRAGMA reverse_unordered_selects = ON")
        connection.set_authorizer(_authorize)
        deadline = time.monotonic() + timeout_s
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _OPERATIONS_BETWEEN_CHECKS)
        try:
            cursor = connection.execute(query)
            rows = cursor.fetchmany(max_rows + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            late = time.monotonic() > deadline
            raise QueryFailed(f"took longer than {timeout_s} s" if late else _said(error)) from error
        if cursor.description is None:
            raise QueryFailed("not a query: it returns no columns")
        if len(rows) > max_rows:
            raise QueryFailed(f"returns more than {max_rows} rows")
        return Result(len(cursor.description), tuple(rows))


@contextmanager
def _connection(source: tuple[str, ...] | str) -> Iterator[sqlite3.Connection]:
    try:
        if isinstance(source, str):
            connection = sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        else:
            image = _image(source)
            connection = sqlite3.connect(":memory:", check_same_thread=False)
            connection.deserialize(image)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        bound_formatting(connection, MAX_CELL_BYTES)
        connection.execute("PRAGMA temp_store = MEMORY")
    except sqlite3.Error as error:
        raise BadDatabase(f"the database cannot be opened: {error}") from error
    with closing(connection):
        yield connection


@lru_cache(maxsize=64)
def _image(statements: Sequence[str]) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements:
            connection.executescript(statement)
        connection.execute("PRAGMA user_version = 1")  # an image needs a page, which no statement may have made
        connection.commit()
        return connection.serialize()


def _said(error: Exception) -> str:
    """SQLite's message, but for the one function that is ours."""
    own = "user-defined function" in str(error)
    return f"printf() of a width above {MAX_CELL_BYTES}, or of values that it cannot take" if own else str(error)


def _authorize(action: int, *_: Any) -> int:
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
