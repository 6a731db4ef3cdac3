"""Advantages beside a second derivation in plain numpy loops, and the cases that vectors do not hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit.grpo import compute_advantages, reward_metrics

NAN, INF = math.nan, math.inf


def deviation(values):
    return np.std(values, ddof=1) if len(values) > 1 else NAN


def known(values):
    return [value for value in values if not math.isnan(value)]


def weighted(row, weights):
    scored = [(value, weight) for value, weight in zip(row, weights, strict=True) if not math.isnan(value)]
    return sum(value * weight for value, weight in scored) if scored else NAN


def derive_sum_then_normalize(scores, group, weights, scale):
    rewards = [weighted(row, weights) for row in scores]
    advantages = []
    for place, reward in enumerate(rewards):
        start = place // group * group
        mates = known(rewards[start : start + group])
        if math.isnan(reward):
            advantages.append(0.0)
            continue
        centred = reward - np.mean(mates)
        over = known(rewards) if scale == "batch" else mates
        spread = 0.0 if (len(rewards) == 1 if scale == "batch" else group == 1) else deviation(over)
        value = centred if scale == "none" else centred / (spread + 1e-4)
        advantages.append(0.0 if math.isnan(value) else value)
    return advantages


def derive_normalize_then_sum(scores, group, weights):
    totals = []
    for place, row in enumerate(scores):
        start = place // group * group
        parts = []
        for k, (value, weight) in enumerate(zip(row, weights, strict=True)):
            mates = known([mate[k] for mate in scores[start : start + group]])
            spread = 0.0 if group == 1 else deviation(mates)
            if not math.isnan(value) and not math.isnan(spread):
                parts.append(weight * (value - np.mean(mates)) / (spread + 1e-4))
        totals.append(NAN if all(math.isnan(value) for value in row) else sum(parts))
    spread = deviation(known(totals)) if len(totals) > 1 else 0.0
    values = [(total - np.mean(known(totals))) / (spread + 1e-4) if known(totals) else NAN for total in totals]
    return [0.0 if math.isnan(value) else value for value in values]


@st.composite
def batches(draw):
    group = draw(st.integers(1, 5))
    rows, columns = group * draw(st.integers(1, 3)), draw(st.integers(1, 3))
    score = st.one_of(st.just(NAN), st.integers(-8, 8).map(lambda eighths: eighths / 4))
    scores = draw(st.lists(st.lists(score, min_size=columns, max_size=columns), min_size=rows, max_size=rows))
    weights = draw(st.lists(st.sampled_from([1.0, 0.5, -2.0, 0.0]), min_size=columns, max_size=columns))
    return scores, group, weights


@settings(max_examples=200, deadline=None)
@given(batches(), st.sampled_from(["group", "batch", "none"]))
def test_sum_then_normalize(batch, scale):
    scores, group, weights = batch
    found = compute_advantages(torch.tensor(scores), num_generations=group, weights=weights, scale=scale)
    expected = derive_sum_then_normalize(scores, group, weights, scale)
    np.testing.assert_allclose(found.values, expected, rtol=2e-5, atol=2e-5)


@settings(max_examples=200, deadline=None)
@given(batches())
def test_normalize_then_sum(batch):
    scores, group, weights = batch
    found = compute_advantages(
        torch.tensor(scores), num_generations=group, weights=weights, aggregation="normalize_then_sum"
    )
    expected = derive_normalize_then_sum(scores, group, weights)
    # The deviation of the batch may itself be rounding noise; a difference of 1e-7 is then divided by 1e-4.
    np.testing.assert_allclose(found.values, expected, rtol=2e-4, atol=6e-3)


@settings(max_examples=100, deadline=None)
@given(batches())
def test_a_dropped_group_is_as_if_it_were_not_scored(batch):
    scores, group, weights = batch
    dropped = range(group)
    found = compute_advantages(torch.tensor(scores), num_generations=group, weights=weights, dropped=dropped)
    erased = [[NAN] * len(row) if place in dropped else row for place, row in enumerate(scores)]
    expected = compute_advantages(torch.tensor(erased), num_generations=group, weights=weights)
    assert torch.equal(found.values, expected.values)
    assert found.unscored[:group].all()
    assert not found.values[:group].any()


@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_infinities_are_missing_and_counted(aggregation, scale):
    scores = [[1.0], [INF], [0.0], [-INF]]
    found = compute_advantages(torch.tensor(scores), num_generations=4, aggregation=aggregation, scale=scale)
    missing = [[NAN if math.isinf(row[0]) else row[0]] for row in scores]
    expected = compute_advantages(torch.tensor(missing), num_generations=4, aggregation=aggregation, scale=scale)
    assert found.infinite == 2
    assert torch.equal(found.values, expected.values)
    assert found.values.isfinite().all()
    assert found.unscored.tolist() == [False, True, False, True]
    assert reward_metrics(found, ["r"])["rewards/infinite"] == 2


@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize(
    ("scores", "weights", "frac_group_zero_std"),
    [
        ([[1.0], [1.0], [0.0], [1.0]], [1.0], 0.5),
        ([[1.0], [1.0], [0.0], [0.0]], [1.0], 1.0),
        ([[1.0], [0.0], [0.0], [1.0]], [1.0], 0.0),
        ([[NAN], [NAN], [0.0], [1.0]], [1.0], 0.5),
        ([[1.0], [NAN], [0.0], [1.0]], [1.0], 0.5),
        ([[1.0, 0.0], [1.0, 5.0], [0.0, 1.0], [1.0, 0.0]], [1.0, 0.0], 0.5),
    ],
)
def test_share_of_groups_without_spread(aggregation, scores, weights, frac_group_zero_std):
    found = compute_advantages(torch.tensor(scores), num_generations=2, weights=weights, aggregation=aggregation)
    names = [f"r{k}" for k in range(len(weights))]
    assert reward_metrics(found, names)["frac_group_zero_std"] == frac_group_zero_std


@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=3))
def test_groups_of_equal_scores_teach_exactly_nothing(scale, aggregation, group, constants):
    """Whatever a rounded mean of them is: the rows are then not run, and TRL's share of rows is a whole one."""
    scores = torch.tensor([constants, [0.5 * value for value in constants]]).repeat_interleave(group, 0)
    weights = [0.3, 0.7, 1.1][: len(constants)]
    found = compute_advantages(scores, num_generations=group, weights=weights, aggregation=aggregation, scale=scale)
    assert not found.values.any()
    assert found.group_zero_std.all()
    if scale != "batch" or aggregation == "normalize_then_sum":
        assert found.zero_std.all()


@pytest.mark.parametrize("aggregation", ["sum_then_normalize", "normalize_then_sum"])
@pytest.mark.parametrize("factor", [1e-30, 1e-6, 1.0, 1e4, 1e18])
def test_tiny_and_huge_scores(factor, aggregation):
    scores = (torch.tensor([[0.0], [1.0], [1.0], [0.5], [NAN], [0.25], [0.25], [0.0]]) * factor).tolist()
    found = compute_advantages(torch.tensor(scores), num_generations=4, aggregation=aggregation)
    expected = derive_sum_then_normalize(scores, 4, [1.0], "group")
    if aggregation == "normalize_then_sum":
        expected = derive_normalize_then_sum(scores, 4, [1.0])
    np.testing.assert_allclose(found.values, expected, rtol=2e-4, atol=1e-6)


def test_peer_counts_one_deviation_for_the_whole_batch():
    scores = torch.tensor([[1.0], [1.0], [0.0], [1.0]])
    found = compute_advantages(scores, num_generations=2, aggregation="normalize_then_sum")
    metrics = reward_metrics(found, ["r"])
    assert (metrics["frac_reward_zero_std"], metrics["frac_group_zero_std"]) == (0.0, 0.5)


def test_metrics_are_of_what_was_scored():
    scores = torch.tensor([[1.0, NAN], [0.0, 2.0], [NAN, NAN], [1.0, 4.0]])
    metrics = reward_metrics(compute_advantages(scores, num_generations=2, weights=[0.7, 0.3]), ["a", "b"])
    assert metrics["rewards/a/mean"] == pytest.approx(2 / 3)
    assert metrics["rewards/b/std"] == pytest.approx(math.sqrt(2))
    assert metrics["reward"] == pytest.approx((0.7 + 0.6 + 1.9) / 3)
    assert metrics["reward_std"] == pytest.approx(np.std([0.7, 0.6, 1.9], ddof=1))
    assert metrics["rewards/unscored"] == 1


def test_a_batch_that_nobody_scored_teaches_nothing():
    found = compute_advantages(torch.full((4, 2), NAN), num_generations=2)
    assert found.values.tolist() == [0.0] * 4
    assert math.isnan(reward_metrics(found, ["a", "b"])["reward"])


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"num_generations": 3}, "4 rollouts do not fill groups of 3"),
        ({"num_generations": 2, "aggregation": "mean"}, "unknown aggregation 'mean'"),
        ({"num_generations": 2, "scale": "rows"}, "unknown scale 'rows'"),
    ],
)
def test_wrong_use(options, named):
    with pytest.raises(ValueError, match=named):
        compute_advantages(torch.zeros(4, 1), **options)
