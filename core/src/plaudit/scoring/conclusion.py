"""From a finished session to its table: scores, columns, metrics and timings, in an order that no thread decides."""

from __future__ import annotations

import time

from plaudit.scoring.normalise import score_of
from plaudit.scoring.session import ScoringSession
from plaudit.scoring.table import (
    FailureRecord,
    ScoreTable,
    failure_columns,
    final_scores,
    logged_columns,
    metric_sums,
    namespaced,
    verdict_columns,
)


def make_table(session: ScoringSession, weights: tuple[float, ...], twice: set[str], asked_at: float) -> ScoreTable:
    """The table of a session whose scores are all in. `asked_at`: when the trainer began to wait for it.

    `twice`: log_extra columns that two rewards have used so far in this run; grown here, so that names stay the same.
    """
    plans, count = session.plans, session.count
    for plan in plans:
        without = sum(score_of(value) is None for value in plan.values)
        plan.stats.abstentions = without - plan.stats.gated - plan.stats.failures.total()
    order = {plan.runtime.name: k for k, plan in enumerate(plans)}
    failures = tuple(sorted(session.failures, key=lambda failure: (order[failure.reward], failure.rollouts)))
    logged = logged_columns(plans, count)
    users: dict[str, int] = {}
    for _, column in logged:
        users[column] = users.get(column, 0) + 1
    twice.update(column for column, number in users.items() if number > 1)
    sums = metric_sums(plans)
    return ScoreTable(
        names=tuple(order),
        weights=weights,
        scores=final_scores(plans),
        dropped=frozenset(session.dropped),
        columns={**namespaced(logged, twice), **verdict_columns(plans, count), **failure_columns(failures, count)},
        metrics={name: total / number for name, (total, number) in sums.items()},
        runtime=runtime_metrics(session, failures, asked_at),
        failures=failures,
        metric_sums=sums,
        logged=logged,
        waited_on=waited_on(session, asked_at),
    )


def runtime_metrics(session: ScoringSession, failures: tuple[FailureRecord, ...], asked_at: float) -> dict[str, float]:
    """`scoring/{reward}/…` for each reward, `scoring/wait_s` and `scoring/failures` for the step."""
    metrics: dict[str, float] = {}
    for plan in session.plans:
        metrics |= plan.stats.metrics(
            f"scoring/{plan.runtime.name}",
            submitted_at=session.submitted_at,
            breaker_open=plan.runtime.breaker.state != "closed",
        )
    metrics["scoring/wait_s"] = max(time.monotonic() - asked_at, 0.0)
    metrics["scoring/failures"] = float(sum(len(failure.rollouts) for failure in failures))
    return metrics


def waited_on(session: ScoringSession, asked_at: float) -> tuple[str, float] | None:
    """The reward whose call ended last, and for how many seconds the step waited for it."""
    last = max(session.plans, key=lambda plan: plan.stats.last_end, default=None)
    if last is None or last.stats.last_end <= asked_at:
        return None
    return last.runtime.name, last.stats.last_end - asked_at


def successes(table: ScoreTable, k: int, success_at: float) -> tuple[float, float]:
    """How many rollouts reward k scored at least `success_at`, and how many it scored."""
    scores = [row[k] for row in table.scores if row[k] is not None]
    return float(sum(score >= success_at for score in scores if score is not None)), float(len(scores))
