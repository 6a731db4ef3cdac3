"""What a generation batch says in numbers: lengths, and what its rewards logged and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...scoring.stats import quantile
from ...scoring.table import ScoreTable
from ...types import ToolUse
from ..collected import Collected, Report
from ..rows.tasks import task_metrics


def collected_metrics(collected: Collected) -> Mapping[str, float]:
    """Lengths, and what rewards logged and cost, over all ranks (spec: grpo-formulas A10)."""
    reports = collected.reports
    lengths = [length for report in reports for length in report.lengths]
    truncated = [cut for report in reports for cut in report.truncated]
    ended = [length for length, cut in zip(lengths, truncated, strict=True) if not cut] or [0]
    found = {
        "completions/mean_length": sum(lengths) / len(lengths),
        "completions/min_length": float(min(lengths)),
        "completions/max_length": float(max(lengths)),
        "completions/clipped_ratio": sum(truncated) / len(truncated),
        "completions/mean_terminated_length": sum(ended) / len(ended),
        "completions/min_terminated_length": float(min(ended)),
        "completions/max_terminated_length": float(max(ended)),
    }
    if collected.staleness:
        found["completions/staleness"] = float(collected.staleness)
    found |= tool_metrics([uses for report in reports for uses in report.tool_uses])
    found |= _means([numbers for report in reports for numbers in report.metrics])
    found |= task_metrics(
        [task for report in reports for task in report.tasks], collected.advantages, collected.names, lengths, truncated
    )
    return {**found, **collected.numbers, **_logged([report.table for report in reports]), **_mean_over_ranks(reports)}


def tool_metrics(uses: Sequence[tuple[ToolUse, ...] | None]) -> dict[str, float]:
    """Calls a rollout, failures a call, and for each tool its latency; nothing where no rollout had tools."""
    calls = [use for one in uses for use in one or ()]
    if all(one is None for one in uses):
        return {}
    failed = sum(use.failed for use in calls)
    found = {
        "tools/call_frequency": len(calls) / len(uses),
        "tools/failure_frequency": failed / len(calls) if calls else 0.0,
    }
    for name in sorted({use.name for use in calls} - {""}):
        own = [use for use in calls if use.name == name]
        ordered = sorted(use.latency_s for use in own)
        found |= {
            f"tools/{name}/calls": float(len(own)),
            f"tools/{name}/failure_total": float(sum(use.failed for use in own)),
            f"tools/{name}/latency_s": sum(ordered) / len(ordered),
            f"tools/{name}/latency_p50_s": quantile(ordered, 0.5),
            f"tools/{name}/latency_max_s": ordered[-1],
        }
    return found


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Each number's mean over the rollouts that have it."""
    names = dict.fromkeys(name for numbers in found for name in numbers)
    values = {name: [numbers[name] for numbers in found if name in numbers] for name in names}
    return {name: sum(numbers) / len(numbers) for name, numbers in values.items()}


def _logged(tables: Sequence[ScoreTable]) -> dict[str, float]:
    """What rewards gave to log_metric: the mean over all its values on all ranks."""
    names = dict.fromkeys(name for table in tables for name in table.metric_sums)
    sums = {name: [table.metric_sums[name] for table in tables if name in table.metric_sums] for name in names}
    return {name: sum(total for total, _ in found) / sum(count for _, count in found) for name, found in sums.items()}


def _mean_over_ranks(reports: Sequence[Report]) -> dict[str, float]:
    """Timings and counts of scoring: each name's mean over the ranks that have it."""
    names = dict.fromkeys(name for report in reports for name in report.table.runtime)
    present = {name: [r.table.runtime[name] for r in reports if name in r.table.runtime] for name in names}
    return {name: sum(values) / len(values) for name, values in present.items()}
