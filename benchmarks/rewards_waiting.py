"""Rewards that wait, for rewards.py: how long a step waits with them, and what the other scenarios share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from plaudit import reward
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.session import ScoringSession
from plaudit.scoring.spec import RewardSpec, environment_spec, reward_specs
from plaudit.types import Rollout, Row
from rewards_peer import Trl

GENERATION_S = 2.0
Figures = dict[str, float | str | None]


def rows_of(count: int) -> list[Row]:
    """Rows with a prompt and an answer."""
    return [Row(f"What is {i}+{i}?", {"answer": str(2 * i), "solution": str(2 * i)}) for i in range(count)]


def submit(session: ScoringSession, completions: Sequence[str], environments: Sequence[Any] | None = None) -> None:
    """Submit all rollouts at once."""
    rows = rows_of(len(completions))
    for i, completion in enumerate(completions):
        session.submit(
            Rollout(i, rows[i], completion, (1, 2, 3), environment=environments[i] if environments else None)
        )


def timed(specs: Sequence[RewardSpec], completions: Sequence[str], environments: Sequence[Any] | None = None) -> float:
    """Wall seconds from the first submission to the table; the scorer is warm."""
    with Scorer(specs, max_unscored_share=None) as scorer:
        session = scorer.open(rows_of(len(completions)), num_generations=len(completions))
        started = time.perf_counter()
        submit(session, completions, environments)
        session.result()
        return time.perf_counter() - started


def sync_reward(completions: Sequence[str], **columns: Any) -> list[float]:
    """0.4 s, blocking."""
    time.sleep(0.4)
    return [1.0] * len(completions)


async def async_reward(completions: Sequence[str], **columns: Any) -> list[float]:
    """0.4 s, awaiting."""
    await asyncio.sleep(0.4)
    return [1.0] * len(completions)


class Environment:
    """An environment whose own reward takes 0.1 s."""

    async def get_reward(self) -> float:
        """As a judge would: slow and awaited."""
        await asyncio.sleep(0.1)
        return 1.0


@reward(granularity="rollout", max_concurrency=128)
def io_reward(completions: Sequence[str]) -> list[float]:
    """1 s of input and output, blocking, for one rollout."""
    time.sleep(1.0)
    return [1.0]


def four(peer: Trl | None) -> Figures:
    """Two sync and two async rewards."""
    functions = [sync_reward, sync_reward, async_reward, async_reward]
    completions = [str(i) for i in range(8)]
    theirs = peer.rewards(functions, completions) if peer else None
    return {"plaudit_s": timed(reward_specs(functions), completions), "trl_s": theirs, "bar_s": 0.45}


def environments(peer: Trl | None) -> Figures:
    """Async get_reward on 8 rollouts."""
    made = [Environment() for _ in range(8)]
    theirs = peer.environment_rewards(made) if peer else None
    return {"plaudit_s": timed([environment_spec(Environment)], ["x"] * 8, made), "trl_s": theirs, "bar_s": 0.15}


def generate(session: ScoringSession, count: int) -> None:
    """Rollouts that finish evenly over the generation's 2 s."""
    rows, started = rows_of(count), time.perf_counter()
    for i in range(count):
        time.sleep(max(started + GENERATION_S * (i + 1) / count - time.perf_counter(), 0.0))
        session.submit(Rollout(i, rows[i], str(i)))


def beside(peer: Trl | None) -> Figures:
    """Scoring that starts with the first finished rollout. TRL: generation first, then the reward as async I/O."""
    with Scorer(reward_specs(io_reward)) as scorer:
        session = scorer.open(rows_of(64), num_generations=8)
        started = time.perf_counter()
        generate(session, 64)
        session.result()
        ours = time.perf_counter() - started
    theirs = None
    if peer is not None:
        started = time.perf_counter()
        time.sleep(GENERATION_S)
        peer.rewards([io_all], [str(i) for i in range(64)])
        theirs = time.perf_counter() - started
    return {"plaudit_s": ours, "trl_s": theirs, "bar_s": 3.1}


async def io_all(completions: Sequence[str], **columns: Any) -> list[float]:
    """The same I/O over a batch, as an async function that awaits all rollouts together."""
    await asyncio.gather(*(asyncio.sleep(1.0) for _ in completions))
    return [1.0] * len(completions)


def lookahead(peer: Trl | None) -> Figures:
    """Seconds a step when the next batch generates while the last rewards of this one arrive; TRL cannot."""
    steps = 4
    with Scorer(reward_specs(io_reward)) as scorer:
        open_session = scorer.open(rows_of(64), num_generations=8)
        generate(open_session, 64)
        started = time.perf_counter()
        for step in range(1, steps + 1):
            following = scorer.open(rows_of(64), num_generations=8, step=step)
            generate(following, 64)
            open_session.result()
            open_session = following
        ours = (time.perf_counter() - started) / steps
        open_session.result()
    return {"plaudit_s": ours, "trl_s": None, "bar_s": GENERATION_S * 1.15}
