"""How long a rollout of many turns may become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...types import Row
from ..rows.tasks import completion_limit


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens of a completion, tokens that the model sees at once (None = not known), rounds of tools (None = any).

    `tasks`: tokens of a completion of one task, where that is less.
    """

    completion: int
    context: int | None
    rounds: int | None
    tasks: Mapping[str, int] | None = None

    def budget(self, row: Row) -> int:
        """Tokens of a completion of this row."""
        own = completion_limit(row.columns, self.tasks)
        return self.completion if own is None else min(self.completion, own)
