"""What the reward runtime itself costs a rollout, for rewards.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from plaudit import reward, verifier
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import reward_specs
from plaudit.types import Rollout, Row
from rewards_peer import Trl
from rewards_waiting import Figures, rows_of


def overhead(peer: Trl | None, *, repeat: int = 15) -> Figures:
    """Microseconds a rollout of a no-op reward beyond the bare function; wall and CPU, the best of `repeat`."""
    count = 1024

    def batch(completions: Sequence[str]) -> list[float]:
        return [0.0] * len(completions)

    each = reward(granularity="rollout")(lambda completions: [0.0])
    judged = verifier(lambda completion, reference: 0.0)

    async def awaited(completions: Sequence[str]) -> list[float]:
        return [0.0]

    variants = {
        "batch": (batch, lambda: batch(["x"] * count)),
        "rollout": (each, lambda: [each(["x"]) for _ in range(count)]),
        "verifier": (judged, lambda: [judged("x", "y") for _ in range(count)]),
        "async_rollout": (reward(granularity="rollout")(awaited), lambda: None),
    }
    figures: Figures = {"bar_us": 30.0}
    rows = rows_of(count)
    rollouts = [Rollout(i, row, f"completion {i}", (1, 2, 3)) for i, row in enumerate(rows)]
    for name, (function, bare) in variants.items():
        with Scorer(reward_specs(function)) as scorer:
            wall, cpu = zip(*(_pass(scorer, rows, rollouts, bare) for _ in range(repeat)), strict=True)
        figures[f"{name}_wall_us"] = min(wall) / count * 1e6
        figures[f"{name}_cpu_us"] = min(cpu) / count * 1e6
    return figures


def _pass(scorer: Scorer, rows: list[Row], rollouts: list[Rollout], bare: Callable[[], Any]) -> tuple[float, float]:
    """Wall and CPU seconds of one batch beyond those of the bare calls."""
    wall, cpu = time.perf_counter(), time.process_time()
    bare()
    bare_wall, bare_cpu = time.perf_counter() - wall, time.process_time() - cpu
    wall, cpu = time.perf_counter(), time.process_time()
    session = scorer.open(rows, num_generations=8)
    for rollout in rollouts:
        session.submit(rollout)
    session.result()
    return time.perf_counter() - wall - bare_wall, time.process_time() - cpu - bare_cpu
