"""The `sql` verifier."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from plaudit import Verdict, completion_text, verifier

from plaudit_sql.compare import respects_order, same_rows
from plaudit_sql.database import BadDatabase, QueryFailed, Result, run_query
from plaudit_sql.extract import find_query, same_text, with_tie_breaker

Source = tuple[str, ...] | str


@verifier(executor="thread")
def verify_sql(
    completion: Any,
    reference: Any,
    *,
    timeout_s: float = 2.0,
    max_rows: int = 100_000,
    tolerance: float = 1e-9,
    think_end: str = "</think>",
) -> Verdict:
    """1 when the query gives gold's rows on every database of the reference.

    `reference`: `{"gold_sql", "setup": [statements], "extra_setups": [[statements]], "databases": [paths], "ordered"}`.
    Rows are compared as a multiset; with `ordered`, in gold's order, ties free. Columns count by place, not by name.
    A query that writes, attaches, takes longer than `timeout_s` or returns more than `max_rows` fails.
    Abstains where gold cannot be run, or gives no row anywhere so that nothing can be told (unless the text is gold's).
    """
    if not isinstance(reference, Mapping) or not isinstance(reference.get("gold_sql"), str):
        return Verdict.abstain("the reference needs 'gold_sql'")
    sources = _sources(reference)
    if not sources:
        return Verdict.abstain("the reference needs 'setup', 'extra_setups' or 'databases'")
    query = find_query(completion_text(completion).rpartition(think_end)[2])
    try:
        golds = [_gold(source, reference["gold_sql"], timeout_s, max_rows) for source in sources]
    except (QueryFailed, BadDatabase) as error:
        return Verdict.abstain(f"gold cannot be run: {error}")
    ordered = bool(reference.get("ordered", False))
    for source, gold in zip(sources, golds, strict=True):
        trouble = _trouble(source, query, gold, ordered, timeout_s, max_rows, tolerance)
        if trouble:
            return Verdict.wrong(trouble, extracted=query[:1000])
    if not any(gold.rows for gold, _ in golds) and not same_text(query, reference["gold_sql"]):
        return Verdict.abstain("gold and query give no row on any database", extracted=query[:1000])
    return Verdict.right(extracted=query[:1000])


def _sources(reference: Mapping[str, Any]) -> list[Source]:
    setups = [reference["setup"]] if reference.get("setup") else []
    setups += list(reference.get("extra_setups") or [])
    made: list[Source] = [(setup,) if isinstance(setup, str) else tuple(setup) for setup in setups]
    return [*made, *map(str, reference.get("databases") or [])]


@lru_cache(maxsize=256)
def _gold(source: Source, query: str, timeout_s: float, max_rows: int) -> tuple[Result, Result]:
    """Gold's result with the rows that it leaves tied in one order, and in the opposite order."""
    plain = run_query(source, query, timeout_s=timeout_s, max_rows=max_rows)
    variants = [with_tie_breaker(query, plain.columns, direction) or query for direction in ("ASC", "DESC")]
    first, second = (run_query(source, variant, timeout_s=timeout_s, max_rows=max_rows) for variant in variants)
    return first, second


def _trouble(
    source: Source,
    query: str,
    gold: tuple[Result, Result],
    ordered: bool,
    timeout_s: float,
    max_rows: int,
    tolerance: float,
) -> str | None:
    """Why the query's result differs from gold's on one database, or None."""
    try:
        result = run_query(source, query, timeout_s=timeout_s, max_rows=max_rows)
        backwards = (
            run_query(source, query, timeout_s=timeout_s, max_rows=max_rows, reverse=True) if ordered else result
        )
    except QueryFailed as error:
        return f"the query failed: {error}"[:300]
    plain, other_ties = gold
    if result.columns != plain.columns:
        return f"{result.columns} columns, expected {plain.columns}"
    if not same_rows(result.rows, plain.rows, tolerance):
        return f"other rows than expected ({len(result.rows)}, expected {len(plain.rows)})"
    if ordered and not all(
        respects_order(rows, plain.rows, other_ties.rows, tolerance) for rows in (result.rows, backwards.rows)
    ):
        return "the rows are not in the order that was asked for"
    return None
