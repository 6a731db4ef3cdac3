"""Questions about an SQLite database that a model may look into."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Literal

from plaudit_sql import BadDatabase, QueryFailed, run_query

from .expressions import BadExpression, evaluate

Split = Literal["train", "test"]
MAX_SHOWN_ROWS = 20
MAX_SHOWN_CHARACTERS = 2000


class SqliteQuestions:
    """Tools `tables`, `query` (read-only) and `answer`. The reward is 1 when the last answer given is right.

    A row has `setup`, the statements that make the database, and `answer`. Numbers are compared by value, text without
    regard to case. `timeout_s`, `max_rows`: of one query.
    """

    def __init__(self, *, timeout_s: float = 2.0, max_rows: int = 10_000) -> None:
        self._timeout_s, self._max_rows = timeout_s, max_rows
        self._setup: tuple[str, ...] = ()
        self._wanted, self._given = "", ""

    def reset(self, setup: Sequence[str], answer: Any) -> None:
        """Take the row's database; raises ValueError where it cannot be made."""
        self._setup, self._wanted, self._given = tuple(setup), str(answer), ""
        try:
            run_query(self._setup, "SELECT 1", timeout_s=self._timeout_s, max_rows=1)
        except (BadDatabase, QueryFailed) as error:
            raise ValueError(f"the row's setup makes no database: {error}") from error

    def tables(self) -> str:
        """List the tables with their columns.

        Returns:
            The statements that made them.
        """
        found = self._run("SELECT sql FROM sqlite_master WHERE type = 'table' ORDER BY name")
        return found if isinstance(found, str) else "\n".join(str(row[0]) for row in found)

    def query(self, sql: str) -> str:
        """Run one SELECT statement.

        Args:
            sql: The statement, in SQLite's dialect.

        Returns:
            The rows, one a line, or the error.
        """
        found = self._run(sql)
        if isinstance(found, str):
            return found
        lines = [" | ".join("NULL" if cell is None else str(cell) for cell in row) for row in found[:MAX_SHOWN_ROWS]]
        rest = [f"[… {len(found) - MAX_SHOWN_ROWS} more rows]"] if len(found) > MAX_SHOWN_ROWS else []
        return "\n".join([*lines, *rest])[:MAX_SHOWN_CHARACTERS] or "[no rows]"

    def answer(self, value: str) -> str:
        """Give the answer. The last one counts.

        Args:
            value: The answer alone: a number or a name.

        Returns:
            That it was taken.
        """
        self._given = str(value)  # a model may write a number as one
        return "The answer was taken."

    def get_reward(self) -> float:
        """1 when the answer is right."""
        return float(_same(self._given, self._wanted))

    def _run(self, sql: str) -> list[tuple[Any, ...]] | str:
        try:
            result = run_query(self._setup, sql, timeout_s=self._timeout_s, max_rows=self._max_rows)
        except QueryFailed as error:
            return f"error: {error}"
        return list(result.rows)


def _same(given: str, wanted: str) -> bool:
    try:
        return evaluate(given, signs=True).value == evaluate(wanted, signs=True).value
    except BadExpression:
        return given.strip().casefold() == wanted.strip().casefold() != ""


_NAMES = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "Jo", "Kai", "Lea")
_TOWNS = ("Oslo", "Rome", "Lima", "Cairo", "Quito")
_QUESTIONS = (
    ("How many people live in {town}?", "SELECT count(*) FROM people WHERE town = '{town}'"),
    ("How much did {name} spend altogether?",
     "SELECT coalesce(sum(amount), 0) FROM orders JOIN people ON person = people.id WHERE name = '{name}'"),
    ("What is the largest amount of one order?", "SELECT max(amount) FROM orders"),
    ("Who is the oldest?", "SELECT name FROM people ORDER BY age DESC LIMIT 1"),
    ("How many people have no order?",
     "SELECT count(*) FROM people WHERE id NOT IN (SELECT person FROM orders)"),
)  # fmt: skip


def shop(split: Split = "train", *, size: int = 200, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of `prompt` (a conversation), `setup` and `answer`: questions about people and their orders.

    Each row has a database of its own; the splits draw theirs from different seeds.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split is {split!r}; shop has train and test")
    rng = random.Random(f"shop {split} {seed}")
    return [_row(rng) for _ in range(size)]


def _row(rng: random.Random) -> dict[str, Any]:
    names = rng.sample(_NAMES, rng.randint(4, 9))
    ages = rng.sample(range(18, 90), len(names))
    people = [(id, name, ages[id - 1], rng.choice(_TOWNS)) for id, name in enumerate(names, 1)]
    orders = [(place + 1, rng.randint(1, len(names)), rng.randint(1, 500)) for place in range(rng.randint(3, 12))]
    setup = [
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, age INTEGER, town TEXT)",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, person INTEGER REFERENCES people(id), amount INTEGER)",
        *(f"INSERT INTO people VALUES {person!r}" for person in people),
        *(f"INSERT INTO orders VALUES {order!r}" for order in orders),
    ]
    question, gold = rng.choice(_QUESTIONS)
    words = {"town": rng.choice(_TOWNS), "name": rng.choice(names)}
    result = run_query(tuple(setup), gold.format(**words), timeout_s=10, max_rows=2)
    asked = f"{question.format(**words)} Look into the database, then answer."
    return {"prompt": [{"role": "user", "content": asked}], "setup": setup, "answer": str(result.rows[0][0])}
