"""What a session comes to: the scores of N rollouts by K rewards, with everything that was logged beside them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plaudit.scoring.normalise import score_of
from plaudit.scoring.plan import RewardPlan
from plaudit.types import Verdict


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A failed call or breach of contract: which rollouts it left without a score, what kind, and the message."""

    reward: str
    rollouts: tuple[int, ...]
    kind: str
    message: str

    def __str__(self) -> str:
        return self.message if self.message.startswith(self.kind) else f"{self.kind}: {self.message}"


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """The result of a session over N rollouts and K rewards.

    `scores`: (N, K), clipped and scaled; None = no score. `weights`: of the K rewards at this step. `dropped`:
    rollouts whose group a failure dropped. `columns`: logged columns, N long each, None where a rollout has none.
    `metrics`: means; `metric_sums` holds their (sum, count) for a mean over ranks. `runtime`: timings and counts.
    `logged`: the columns of log_extra by (reward, column), before `namespaced` gave them their names.
    """

    names: tuple[str, ...]
    weights: tuple[float, ...]
    scores: tuple[tuple[float | None, ...], ...]
    dropped: frozenset[int] = frozenset()
    columns: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    runtime: Mapping[str, float] = field(default_factory=dict)
    failures: tuple[FailureRecord, ...] = ()
    metric_sums: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    logged: Mapping[tuple[str, str], tuple[Any, ...]] = field(default_factory=dict)
    waited_on: tuple[str, float] | None = None

    @property
    def unscored(self) -> frozenset[int]:
        """The rollouts that no reward scored."""
        return frozenset(i for i, row in enumerate(self.scores) if all(score is None for score in row))


def final_scores(plans: Sequence[RewardPlan]) -> tuple[tuple[float | None, ...], ...]:
    """(N, K) scores after clip and scale; what on_error = zero gave is 0.0."""
    columns = []
    for plan in plans:
        spec, zeros = plan.runtime.spec, plan.zeroed
        column = [score_of(value) for value in plan.values]
        if spec.clip is not None or spec.scale != 1.0:
            low, high = spec.clip or (-math.inf, math.inf)
            column = [None if score is None else min(max(score, low), high) * spec.scale for score in column]
        columns.append([0.0 if i in zeros else score for i, score in enumerate(column)] if zeros else column)
    return tuple(zip(*columns, strict=True))


def verdict_columns(plans: Sequence[RewardPlan], count: int) -> dict[str, tuple[Any, ...]]:
    """`{reward}/extracted`, `{reward}/reason` and `{reward}/{column}` of the Verdicts, where any rollout has one."""
    cells: dict[str, dict[int, Any]] = defaultdict(dict)
    for plan in plans:
        for index, value in enumerate(plan.values):
            if not isinstance(value, Verdict):
                continue
            found = {"extracted": value.extracted, "reason": value.reason or None, **value.columns}
            for column, cell in found.items():
                if cell is not None:
                    cells[f"{plan.runtime.name}/{column}"][index] = cell
    return {column: _filled(by_index, count) for column, by_index in cells.items()}


def metric_sums(plans: Sequence[RewardPlan]) -> dict[str, tuple[float, int]]:
    """(sum, count) of every logged metric: log_metric's under its own name, a Verdict's as `{reward}/{metric}`.

    Two rewards that log one name are kept apart as `{reward}/{name}`. Sums do not depend on the order of completion.
    """
    values: dict[tuple[str | None, str], list[float]] = defaultdict(list)
    owners: Counter[str] = Counter(name for plan in plans for name in {name for name, _ in plan.metrics})
    for plan in plans:
        for name, value in plan.metrics:
            values[(plan.runtime.name if owners[name] > 1 else None, name)].append(value)
        for verdict in plan.values:
            if isinstance(verdict, Verdict):
                for name, value in verdict.metrics.items():
                    values[(plan.runtime.name, name)].append(float(value))
    sums = {}
    for (owner, name), found in values.items():
        kept = [value for value in found if math.isfinite(value)]
        if kept:
            sums[f"{owner}/{name}" if owner else name] = (math.fsum(kept), len(kept))
    return sums


def logged_columns(plans: Sequence[RewardPlan], count: int) -> dict[tuple[str, str], tuple[Any, ...]]:
    """The columns of log_extra by (reward, column), each `count` long."""
    return {
        (plan.runtime.name, column): _filled(by_index, count)
        for plan in plans
        for column, by_index in sorted(plan.logged.items())
    }


def namespaced(
    logged: Mapping[tuple[str, str], tuple[Any, ...]], shared: Iterable[str] = ()
) -> dict[str, tuple[Any, ...]]:
    """Columns by final name: one that two rewards use, now or before (`shared`), is `{reward}/{column}`."""
    users = Counter(column for _, column in logged)
    twice = {column for column, number in users.items() if number > 1} | set(shared)
    return {f"{reward}/{column}" if column in twice else column: values for (reward, column), values in logged.items()}


def failure_columns(failures: Iterable[FailureRecord], count: int) -> dict[str, tuple[Any, ...]]:
    """`{reward}/failure`: the kind and message of each failure in the place of its rollouts."""
    cells: dict[str, dict[int, str]] = defaultdict(dict)
    for failure in failures:
        for index in failure.rollouts:
            cells[f"{failure.reward}/failure"][index] = str(failure)
    return {column: _filled(by_index, count) for column, by_index in cells.items()}


def _filled(by_index: Mapping[int, Any], count: int) -> tuple[Any, ...]:
    return tuple(by_index.get(i) for i in range(count))
