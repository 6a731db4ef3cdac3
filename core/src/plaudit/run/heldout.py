"""How well the policy does on held-out rows: generated once each, scored by the run's own rewards."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`means`: mean score by reward over the rows it judged. `judged`: how many those were. `samples`: some records."""

    step: int
    rows: int
    reward: float | None
    means: Mapping[str, float | None]
    judged: Mapping[str, int]
    samples: Sequence[Mapping[str, Any]]

    def point(self, name: str) -> tuple[float, float] | None:
        """(step, mean score) of a reward; None when it judged no row."""
        mean = self.means[name]
        return None if mean is None else (float(self.step), mean)

    def scores(self) -> dict[str, float | None]:
        """The mean reward as "reward", and each reward's mean score."""
        return {"reward": self.reward, **self.means}


def evaluate_heldout(
    trainer: Any, rows: Sequence[Mapping[str, Any]], names: Sequence[str], *, temperature: float
) -> Evaluation:
    """Generate one completion for each row, at temperature 0 greedily, and score it. Nothing is updated."""
    records = trainer.generate_completions(rows, temperature=temperature)
    scores = {name: [record[name] for record in records if record[name] is not None] for name in names}
    rewards = [record["reward"] for record in records if record["reward"] is not None]
    return Evaluation(
        step=trainer.state.global_step,
        rows=len(records),
        reward=_mean(rewards),
        means={name: _mean(values) for name, values in scores.items()},
        judged={name: len(values) for name, values in scores.items()},
        samples=[{key: record[key] for key in ("prompt", "completion", *names)} for record in records[:SAMPLES]],
    )


def save_evaluations(evaluations: Mapping[str, Evaluation], path: Path) -> None:
    """Keep the evaluations as JSON, by "before" and "after"."""
    content = {when: dataclasses.asdict(evaluation) for when, evaluation in evaluations.items()}
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")


def read_evaluations(path: Path) -> dict[str, Evaluation]:
    """What `save_evaluations` wrote; empty when there is no such file."""
    if not path.exists():
        return {}
    return {when: Evaluation(**values) for when, values in json.loads(path.read_text(encoding="utf-8")).items()}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
