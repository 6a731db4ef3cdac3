"""Whether two result sets agree: as lists, up to ties, or as multisets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

Row = tuple[Any, ...]


def same_rows(left: Sequence[Row], right: Sequence[Row], tolerance: float) -> bool:
    """The same rows as often, in any order. Numbers agree within `tolerance` (relative); NULL is not '' or 0."""
    if Counter(map(_key, left)) == Counter(map(_key, right)):
        return True
    if len(left) != len(right):
        return False
    ordered = zip(sorted(left, key=_sort_key), sorted(right, key=_sort_key), strict=True)
    return all(_same_row(one, other, tolerance) for one, other in ordered)


def respects_order(rows: Sequence[Row], gold: Sequence[Row], other_ties: Sequence[Row], tolerance: float) -> bool:
    """Whether `rows` come in gold's order, where rows that gold leaves tied may come in any order.

    `gold` and `other_ties` are gold's rows with its ties broken in opposite ways.
    """
    if len(rows) != len(gold):
        return False
    return all(same_rows(rows[start:end], gold[start:end], tolerance) for start, end in _tied_blocks(gold, other_ties))


def _tied_blocks(gold: Sequence[Row], other: Sequence[Row]) -> list[tuple[int, int]]:
    """The shortest blocks that hold the same rows in both orders; the rest, where a LIMIT cuts a tie, is one block."""
    blocks, start = [], 0
    balance: Counter[Row] = Counter()
    for position, (one, two) in enumerate(zip(gold, other, strict=False), 1):
        balance[_key(one)] += 1
        balance[_key(two)] -= 1
        balance = Counter({key: count for key, count in balance.items() if count})
        if not balance:
            blocks.append((start, position))
            start = position
    return [*blocks, (start, len(gold))] if start < len(gold) else blocks


def _same_row(left: Row, right: Row, tolerance: float) -> bool:
    return len(left) == len(right) and all(_same_value(a, b, tolerance) for a, b in zip(left, right, strict=True))


def _same_value(left: Any, right: Any, tolerance: float) -> bool:
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left == right or math.isclose(left, right, rel_tol=tolerance, abs_tol=tolerance)
    return type(left) is type(right) and bool(left == right)


def _key(row: Row) -> Row:
    """A hashable row in which equal numbers are equal and a number never equals a text."""
    return tuple(float(value) if isinstance(value, int) and abs(value) < 2**53 else value for value in row)


def _sort_key(row: Row) -> list[tuple[str, Any]]:
    return [
        ("0", float(value))
        if isinstance(value, int | float)
        else (type(value).__name__, "" if value is None else value)
        for value in row
    ]
