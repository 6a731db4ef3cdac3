"""What one call logs through TRL's `log_extra` and `log_metric`: kept with the call, dropped with it when it fails."""

from __future__ import annotations

import math
from typing import Any

from plaudit.scoring.errors import LengthError, LogError

RESERVED = frozenset(
    {"step", "prompt", "prompts", "completion", "completions", "completion_ids", "reward", "advantage"}
)


class Recorder:
    """The logging functions of one call over `count` rollouts, in the call's own order."""

    __slots__ = ("columns", "count", "metrics", "name", "reserved")

    def __init__(self, name: str, count: int, reserved: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.count = count
        self.reserved = reserved
        self.columns: dict[str, list[Any]] = {}
        self.metrics: list[tuple[str, float]] = []

    def log_extra(self, column: str, values: Any) -> None:
        """A column of the completions table, one value a completion. A second call with one name writes `name_2`.

        Raises LengthError on another number of values, LogError on a reserved column or on what is no list.
        """
        if column in RESERVED or column in self.reserved:
            raise LogError(
                f"reward '{self.name}' logged the column '{column}', a name that the completions table keeps; rename it"
            )
        if hasattr(values, "tolist"):
            values = values.tolist()
        if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
            raise LogError(f"reward '{self.name}': log_extra('{column}', …) takes a list, not {type(values).__name__}")
        listed = list(values)
        if len(listed) != self.count:
            raise LengthError(
                f"reward '{self.name}' logged {len(listed)} values in column '{column}' for {self.count} completions; "
                "give one each, None where there is none"
            )
        name, again = column, 1
        while name in self.columns:
            again += 1
            name = f"{column}_{again}"
        self.columns[name] = listed

    def log_metric(self, name: str, value: Any) -> None:
        """A number to be averaged over the step's calls of this name; NaN is left out. Raises LogError on no number."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise LogError(f"reward '{self.name}': log_metric('{name}', {value!r}) takes a number") from None
        if not math.isnan(number):
            self.metrics.append((str(name), number))
