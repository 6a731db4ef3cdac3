"""Completions and their scores without an update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from ..collected import Collected
from ..collecting import Collector
from ..ranks import Ranks
from ..rows.prompts import as_row

ALONE = Ranks(SimpleNamespace(process_index=0, num_processes=1))
"""This process by itself, whatever others there are."""


def preview(
    collector: Collector,
    records: Sequence[Mapping[str, Any]],
    num_generations: int,
    temperature: float | None,
    at_once: int,
    trainer_state: Any,
) -> list[dict[str, Any]]:
    """One record a completion, `num_generations` for each row in order, about `at_once` of them generated together.

    A record holds the row's columns, `prompt`, `completion`, each reward's score under its name (None = abstained), the
    columns that rewards logged, `reward` (None = unscored), `advantage` and `finish_reason`. temperature: None =
    the run's.
    """
    sampling = collector.sampling if temperature is None else replace(collector.sampling, temperature=temperature)
    alone = replace(collector, ranks=ALONE, sampling=sampling, keep_texts=True)
    rows = [as_row(record) for record in records]
    size = max(1, at_once // num_generations)
    found = []
    for start in range(0, len(rows), size):
        repeated = [row for row in rows[start : start + size] for _ in range(num_generations)]
        collected = alone.collect(repeated, num_generations=num_generations, mode="eval", trainer_state=trainer_state)
        found += _records(collected)
    return found


def _records(collected: Collected) -> list[dict[str, Any]]:
    table = collected.reports[0].table
    rewards, advantages = collected.advantages.rewards.tolist(), collected.advantages.values.tolist()
    return [
        {
            **rollout.row.columns,
            "prompt": rollout.row.prompt,
            "completion": rollout.completion,
            **{name: values[place] for name, values in table.columns.items()},
            **dict(zip(table.names, table.scores[place], strict=True)),
            "reward": None if math.isnan(rewards[place]) else rewards[place],
            "advantage": advantages[place],
            "finish_reason": rollout.finish_reason,
        }
        for place, rollout in enumerate(collected.rollouts)
    ]
