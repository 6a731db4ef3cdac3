"""The rows of several tasks as one sequence, each task present in its share from the first row to the last."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError

Record = Mapping[str, Any]
MOST_ROWS = 10_000_000


def mix_tasks(tasks: Mapping[str, Sequence[Record]], ratios: Mapping[str, float] | None = None) -> list[Record]:
    """All rows, with a `task` column and every column of every task (None where a task has none).

    Without `ratios` each row comes once. With them every task comes at least once in full, and a task whose share is
    larger than its rows starts over. Tasks are interleaved evenly, so the shares hold also without shuffling. Raises
    UsageError where a share is so small that the rows would be too many.
    """
    columns = dict.fromkeys(name for rows in tasks.values() for row in rows for name in row)
    counts = {name: len(rows) for name, rows in tasks.items()}
    if ratios is not None:
        _check_ratios(ratios)
        rarest = max(tasks, key=lambda name: len(tasks[name]) / ratios[name])
        scale = len(tasks[rarest]) / ratios[rarest]
        if scale * sum(ratios.values()) > MOST_ROWS:
            raise UsageError(
                f"task '{rarest}' has {len(tasks[rarest])} rows for a share of "
                f"{ratios[rarest] / sum(ratios.values()):.3g}: to show all of them the others would come in more than "
                f"{MOST_ROWS:,} rows; give it fewer rows, or a larger ratio"
            )
        counts = {name: max(round(scale * ratios[name]), 1) for name in tasks}
    placed = []
    for order, (name, rows) in enumerate(tasks.items()):
        count = counts[name]
        filled = [{**dict.fromkeys(columns), **row, "task": _task_value(row, name)} for row in rows]
        placed += [((k + 0.5) / count, order, filled[k % len(rows)]) for k in range(count)]
    placed.sort(key=lambda entry: entry[:2])
    return [row for _, _, row in placed]


def tempered_ratios(tasks: Mapping[str, Sequence[Record]], temperature: float) -> dict[str, float]:
    """Shares in proportion to the tasks' sizes to the power 1/temperature (arXiv 1907.05019): 1 as they are, more is
    more even. Raises UsageError on a temperature that is no number above 0, or so small that one task is all.
    """
    if not temperature > 0:
        raise UsageError(f"task_temperature = {temperature}: expected a number above 0")
    try:
        return {name: len(rows) ** (1 / temperature) for name, rows in tasks.items()}
    except OverflowError:
        raise UsageError(f"task_temperature = {temperature}: too small for tasks of these sizes") from None


def _check_ratios(ratios: Mapping[str, float]) -> None:
    for name, ratio in ratios.items():
        if not 0 < ratio < math.inf:
            raise UsageError(f"task '{name}': ratio = {ratio}; expected a number above 0")


def _task_value(row: Record, name: str) -> str:
    if row.get("task", name) not in (name, None):
        raise UsageError(
            f"task '{name}': its data has a column 'task' of its own ({row['task']!r}); rename it with columns"
        )
    return name
