"""Which rollouts a reward runs on: `when` looks at the row's columns, `after` at another reward's score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit.errors import UsageError


def matches(when: Mapping[str, Any] | None, columns: Mapping[str, Any]) -> bool:
    """Whether a row passes `when`: every named column equals its value, or is in its list of values."""
    return not when or all(_matches_one(columns.get(name), wanted) for name, wanted in when.items())


def _matches_one(value: Any, wanted: Any) -> bool:
    return value in wanted if isinstance(wanted, (list, tuple, set, frozenset)) else bool(value == wanted)


def passes(score: float | None, at_least: float | None) -> bool:
    """Whether a score opens an `after` gate: ≥ `at_least`, or > 0 when that is None. An abstention does not open it."""
    return score is not None and (score > 0 if at_least is None else score >= at_least)


def as_after(after: str | Mapping[str, float] | None) -> tuple[str, float | None] | None:
    """`after = "format"` (above 0) or `after = {format = 0.5}` (at least 0.5) as (name, at_least)."""
    if after is None:
        return None
    if isinstance(after, str):
        return after, None
    if not isinstance(after, Mapping) or len(after) != 1:
        raise UsageError(f'after = {after!r}: write after = "name" or after = {{name = 0.5}}, one reward')
    ((name, at_least),) = after.items()
    return name, float(at_least)


def order_of(names: tuple[str, ...], after: tuple[tuple[str, float | None] | None, ...]) -> tuple[int | None, ...]:
    """The position of the reward that each waits for. Raises UsageError on unknown names and on circles."""
    positions: list[int | None] = []
    for name, gate in zip(names, after, strict=True):
        if gate is not None and gate[0] not in names:
            raise UsageError(
                f"reward '{name}' runs after '{gate[0]}', but there is no reward of that name: {', '.join(names)}"
            )
        positions.append(None if gate is None else names.index(gate[0]))
    for start, name in enumerate(names):
        seen, at = set[int](), positions[start]
        while at is not None:
            if at == start or at in seen:
                raise UsageError(f"reward '{name}' waits for itself through `after`; remove one of the gates")
            seen.add(at)
            at = positions[at]
    return tuple(positions)
