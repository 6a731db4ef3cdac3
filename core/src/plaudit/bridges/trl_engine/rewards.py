"""The rewards of a run as TRL's reward functions, all of them scored by one session of our runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.bridges.trl import ExtraColumns, kept_scores
from plaudit.scoring.awaiting import table_of
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec
from plaudit.scoring.table import ScoreTable
from plaudit.types import Rollout, Row

from .rows import ROW
from .seats import Seat


class SharedScoring:
    """Scores each of TRL's batches once, for all rewards together: so that they run at one time, wait for each other
    (`after`), drop groups and follow schedules as they do here.

    config: the run's GRPOConfig. Call `attach` with TRL's trainer before it trains.
    """

    def __init__(self, specs: Sequence[RewardSpec], config: Any) -> None:
        self.scorer = Scorer(specs, max_unscored_share=config.max_unscored_share)
        self._config = config
        self._trainer: Any = None
        self._batch: tuple[Any, asyncio.Task[ScoreTable]] | None = None
        self._shown = ExtraColumns()

    def attach(self, trainer: Any) -> None:
        """The trainer whose batches are scored."""
        self._trainer = trainer

    def functions(self) -> list[SharedReward]:
        """One of TRL's reward functions for each reward, in order."""
        return [SharedReward(self, place, name) for place, name in enumerate(self.scorer.names)]

    async def table(self, completions: Any, given: Mapping[str, Any]) -> ScoreTable:
        """The scores of the batch that these completions are; computed when it is first asked for."""
        if self._batch is None or self._batch[0] is not completions:
            self._batch = (completions, asyncio.create_task(self._score(completions, given)))
        return await self._batch[1]

    async def _score(self, completions: Any, given: Mapping[str, Any]) -> ScoreTable:
        rollouts = rollouts_of(completions, given)
        mode = "train" if self._trainer.model.training else "eval"
        config = self._config
        generations = config.num_generations
        if mode == "eval":
            generations = config.num_generations_eval or generations
        state = given.get("trainer_state")
        session = self.scorer.open(
            [rollout.row for rollout in rollouts],
            num_generations=generations if len(rollouts) % generations == 0 else 1,
            trainer_state=state,
            mode=mode,  # type: ignore[arg-type]
            step=getattr(state, "global_step", 0),
        )
        for rollout in rollouts:
            session.submit(rollout)
        table = await table_of(session)
        self._follow(table)
        self._log(table, len(rollouts), given.get("log_extra"), given.get("log_metric"))
        return table

    def _follow(self, table: ScoreTable) -> None:
        """The weights of this step, where schedules move them."""
        import torch

        self._trainer.reward_weights = torch.tensor(table.weights, dtype=torch.float32)

    def _log(self, table: ScoreTable, count: int, log_extra: Any, log_metric: Any) -> None:
        self._shown.log(table.columns, count, log_extra)
        for name, value in {**table.metrics, **table.runtime}.items() if log_metric is not None else ():
            log_metric(name, value)


class SharedReward:
    """One reward of a `SharedScoring`, by TRL's contract."""

    def __init__(self, scoring: SharedScoring, place: int, name: str) -> None:
        self._scoring = scoring
        self._place = place
        self.__name__ = name

    async def __call__(self, completions: Sequence[Any], **given: Any) -> list[float | None]:
        """One score a completion; None where there is none, and for all of a group that a failure dropped."""
        table = await self._scoring.table(completions, given)
        return kept_scores(table, self._place)


NOT_COLUMNS = ("prompts", "completion_ids", "trainer_state", "log_extra", "log_metric", "environments", ROW)


def rollouts_of(completions: Sequence[Any], given: Mapping[str, Any]) -> list[Rollout]:
    """TRL's batch as rollouts. Raises what a tool asked for whose failure is to end the run."""
    columns = {name: values for name, values in given.items() if name not in NOT_COLUMNS}
    held = given.get("environments") or [None] * len(completions)
    seats = [None if one is None else one._seat for one in held]
    fatal = next((seat.fatal for seat in seats if seat is not None and seat.fatal is not None), None)
    if fatal is not None:
        raise fatal
    return [
        Rollout(
            index=place,
            row=Row(given["prompts"][place], {name: values[place] for name, values in columns.items()}),
            completion=completions[place],
            completion_ids=tuple(given["completion_ids"][place]),
            finish_reason="abort" if _gave_up(seats[place]) else "stop",
            environment=None if seats[place] is None else seats[place].instance,  # type: ignore[union-attr]
        )
        for place in range(len(completions))
    ]


def _gave_up(seat: Seat | None) -> bool:
    return seat is not None and seat.gave_up is not None
