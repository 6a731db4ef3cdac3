"""How two models' scores on the same rows are compared."""

from __future__ import annotations

import random
from statistics import NormalDist, fmean, stdev

import pytest
from plaudit.run.comparing import differences, interval, sign_test


@pytest.mark.parametrize(
    ("better", "worse", "p_value"),
    [(0, 0, 1.0), (5, 5, 1.0), (9, 1, 22 / 1024), (10, 0, 2 / 1024), (1, 9, 22 / 1024), (1, 0, 1.0)],
)
def test_the_sign_test_is_the_binomial_tail(better, worse, p_value):
    assert sign_test(better, worse) == pytest.approx(p_value)


def test_the_interval_is_that_of_the_normal_approximation():
    values = [random.Random(1).gauss(0.2, 1.0) for _ in range(400)]
    low, high = interval(values)
    half = NormalDist().inv_cdf(0.975) * stdev(values) / 400**0.5
    assert (low, high) == pytest.approx((fmean(values) - half, fmean(values) + half), abs=0.02)


def records(*scores, name="math"):
    return [{name: score, "reward": score} for score in scores]


def test_pairs_with_both_scores_are_compared():
    (total, math) = differences(records(0.0, 0.0, 1.0, None), records(1.0, 0.0, 1.0, 1.0), ["math"])
    assert (math.name, math.rows, math.better, math.worse) == ("math", 3, 1, 0)
    assert (math.first, math.second) == pytest.approx((1 / 3, 2 / 3))
    assert math.low <= math.second - math.first <= math.high
    assert total.name == "reward"


def test_completions_of_a_row_are_averaged_first():
    found = differences(records(0.0, 1.0, 0.0, 0.0), records(1.0, 1.0, 0.0, 0.0), ["math"], per_row=2)[1]
    assert (found.rows, found.better, found.worse) == (2, 1, 0)
    assert (found.first, found.second) == (0.25, 0.5)


def test_a_reward_without_scores_is_left_out():
    assert differences(records(None), records(1.0), ["math"]) == []
