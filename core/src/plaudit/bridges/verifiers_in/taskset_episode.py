"""One rollout of a taskset's environment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plaudit.types import Message, Verdict

from ..episodes import Policy
from .row_episode import RowEpisode

if TYPE_CHECKING:
    from .taskset import TasksetEnvironment


class TasksetEpisode(RowEpisode):
    """One episode of verifiers 0.4; what episodes share stays open until it is closed."""

    loaded: TasksetEnvironment
    _holds = False

    async def program(self, policy: Policy, row: Mapping[str, Any]) -> Verdict:
        """The environment's own episode of the task `task_index`."""
        return await self.loaded.play(policy, row["task_index"])

    async def reset(  # type: ignore[override]
        self, task_index: int, task_split: str = "train", **row: Any
    ) -> list[Message] | None:
        """Begin an episode."""
        if not self._holds:
            await self.loaded.hold()
            self._holds = True
        return await super().reset(task_index, task_split, **row)

    async def get_reward(self) -> Verdict:
        """What the task's rewards said. Raises EpisodeError on an episode that broke down."""
        found: Verdict = await self.outcome()
        return found

    async def close(self) -> None:
        """Stop the episode, and let what was shared go."""
        await super().close()
        if self._holds:
            self._holds = False
            await self.loaded.let_go()
