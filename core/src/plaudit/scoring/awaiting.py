"""Scoring a batch from a coroutine: rollouts in, the table out, without holding the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from plaudit.scoring.scorer import Scorer
from plaudit.scoring.session import ScoringSession
from plaudit.scoring.table import ScoreTable
from plaudit.types import Rollout


def submitted(
    scorer: Scorer, rollouts: Sequence[Rollout], *, num_generations: int | None = None, trainer_state: Any = None
) -> ScoringSession:
    """A session over these rollouts, all of them handed over; their places are their indices.

    num_generations: G; by default all are one group. Raises what `Scorer.open` raises.
    """
    session = scorer.open(
        [rollout.row for rollout in rollouts],
        num_generations=num_generations or len(rollouts),
        mode="eval",
        trainer_state=trainer_state,
        step=getattr(trainer_state, "global_step", 0),
    )
    for place, rollout in enumerate(rollouts):
        session.submit(rollout if rollout.index == place else replace(rollout, index=place))
    return session


async def table_of(session: ScoringSession) -> ScoreTable:
    """The session's table when all scores are in."""
    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    session.when_done(partial(_signal, loop, finished))
    await finished.wait()
    return session.result()


def _signal(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Set an event of a loop from another thread; nothing when the loop has ended meanwhile."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(event.set)
