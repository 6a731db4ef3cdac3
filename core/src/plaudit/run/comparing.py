"""Two models on the same held-out rows: how much better is one, and could it be chance?"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import fmean
from typing import Any

RESAMPLES = 2000


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one reward over the rows that both models have a score for.

    `low`, `high`: 95 % interval of the mean difference by a paired bootstrap over rows. `better`, `worse`: rows on
    which the second model scores more, or less. `p_value`: of the sign test on those, two-sided.
    """

    name: str
    rows: int
    first: float
    second: float
    low: float
    high: float
    better: int
    worse: int
    p_value: float


def differences(
    first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], names: Sequence[str], *, per_row: int = 1
) -> list[Difference]:
    """The differences of each reward and of `reward`. Records of both models stand in the same order, `per_row` of each
    row, whose scores are averaged first.
    """
    return [found for name in ("reward", *names) if (found := _difference(name, first, second, per_row)) is not None]


def _difference(
    name: str, first: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]], per_row: int
) -> Difference | None:
    pairs = [
        (before, after)
        for before, after in zip(_by_row(first, name, per_row), _by_row(second, name, per_row), strict=True)
        if before is not None and after is not None
    ]
    if not pairs:
        return None
    gaps = [after - before for before, after in pairs]
    low, high = interval(gaps)
    better, worse = sum(gap > 0 for gap in gaps), sum(gap < 0 for gap in gaps)
    means = fmean(before for before, _ in pairs), fmean(after for _, after in pairs)
    return Difference(name, len(pairs), *means, low, high, better, worse, sign_test(better, worse))


def interval(values: Sequence[float], *, share: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """A bootstrap interval of the mean."""
    draw = random.Random(seed)
    means = sorted(fmean(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    cut = round((1 - share) / 2 * RESAMPLES)
    return means[cut], means[-1 - cut]


def sign_test(better: int, worse: int) -> float:
    """The chance of a split at least this uneven if neither were better: exact, two-sided."""
    total, most = better + worse, max(better, worse)
    if total == 0:
        return 1.0
    tail = sum(comb(total, k) for k in range(most, total + 1)) / 2**total
    return min(1.0, 2 * tail)


def _by_row(records: Sequence[Mapping[str, Any]], name: str, per_row: int) -> list[float | None]:
    groups = [records[start : start + per_row] for start in range(0, len(records), per_row)]
    found = [[record[name] for record in group if record[name] is not None] for group in groups]
    return [fmean(scores) if scores else None for scores in found]
