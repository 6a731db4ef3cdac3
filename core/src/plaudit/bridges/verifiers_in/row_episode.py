"""Episodes of rows that name a task by its place."""

from __future__ import annotations

from typing import Any

from plaudit.types import Message

from ..episodes import ProgramEpisode


class RowEpisode(ProgramEpisode):
    """An episode of a row of `verifiers_rows`."""

    async def reset(  # type: ignore[override]
        self, task_index: int, task_split: str = "train", **row: Any
    ) -> list[Message] | None:
        """Begin. Raises EpisodeError when the episode asks for nothing, or for what the row does not begin with."""
        return await super().reset(task_index=task_index, task_split=task_split or "train", **row)
