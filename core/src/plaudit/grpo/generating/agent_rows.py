"""Rows of datasets whose prompts environments may stand in for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

EMPTY_PROMPT = [{"role": "user", "content": ""}]
"""The prompt of a row that has none: an environment's first observation stands in its place."""


def first_of(dataset: Any) -> Mapping[str, Any]:
    """The first row."""
    first: Mapping[str, Any] = next(iter(dataset))
    return first


def values_of(dataset: Any, column: str) -> Iterable[Any]:
    """The different values of a column; none of a stream."""
    if hasattr(dataset, "unique"):
        return list(dataset.unique(column))
    # A stream is not read through: a row's own check is then the first to see it.
    return dict.fromkeys(row[column] for row in dataset) if hasattr(dataset, "__len__") else ()


def some_lack_prompts(dataset: Any) -> bool:
    """Whether some rows may have no prompt though the column is there, as where kinds of rows were put together."""
    if hasattr(dataset, "data"):  # a table of the datasets library
        return bool(dataset.data.column("prompt").null_count)
    return any(not row.get("prompt") for row in dataset) if hasattr(dataset, "__len__") else hasattr(dataset, "map")


def with_prompts(dataset: Any) -> Any:
    """The rows, with an empty prompt where there is none."""
    if hasattr(dataset, "map"):
        return dataset.map(_add_prompt)
    return [_add_prompt(row) for row in dataset]


def _add_prompt(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "prompt": row.get("prompt") or EMPTY_PROMPT}
