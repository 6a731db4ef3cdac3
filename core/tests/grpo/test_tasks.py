"""Several tasks in one batch: metrics of each, and advantages that stay within a task."""

from __future__ import annotations

import math

import pytest
import torch
from plaudit.grpo.advantages import compute_advantages
from plaudit.grpo.rows.tasks import advantages_within_tasks, task_metrics, task_of

NAN = float("nan")


def test_a_row_names_its_task():
    assert [task_of(columns) for columns in ({"task": "math"}, {}, {"task": None}, {"task": 3})] == [
        "math", None, None, None,
    ]  # fmt: skip


def test_metrics_of_a_task_are_those_of_its_rollouts_alone():
    scores = torch.tensor([[1.0, NAN], [0.0, NAN], [NAN, 4.0], [NAN, 4.0], [1.0, NAN], [1.0, NAN]])
    tasks = ["a", "a", "b", "b", "a", "a"]
    advantages = compute_advantages(scores, num_generations=2)
    found = task_metrics(tasks, advantages, ["x", "y"], [1, 2, 3, 4, 5, 6], [True, False, False, False, False, False])
    alone = compute_advantages(scores[[0, 1, 4, 5]][:, :1], num_generations=2)
    assert found["tasks/a/reward"] == pytest.approx(0.75)
    assert found["tasks/a/reward_std"] == pytest.approx(float(alone.rewards.std()))
    assert found["tasks/a/frac_group_zero_std"] == 0.5
    assert found["tasks/a/rewards/x/mean"] == 0.75
    assert "tasks/a/rewards/y/mean" not in found
    assert found["tasks/a/completions/mean_length"] == (1 + 2 + 5 + 6) / 4
    assert found["tasks/a/completions/clipped_ratio"] == 0.25
    assert (found["tasks/b/reward"], found["tasks/b/frac_group_zero_std"]) == (4.0, 1.0)
    assert found["tasks/b/share"] == pytest.approx(1 / 3)


def test_rows_without_tasks_have_no_such_metrics():
    advantages = compute_advantages(torch.tensor([[1.0], [0.0]]), num_generations=2)
    assert task_metrics([None, None], advantages, ["x"], [1, 1], [False, False]) == {}


@pytest.mark.parametrize(
    "options", [{"scale": "batch"}, {"aggregation": "normalize_then_sum"}, {"scale": "group"}, {"scale": "none"}]
)
def test_within_a_task_advantages_are_those_of_its_rows_by_themselves(options):
    torch.manual_seed(0)
    scores = torch.rand(12, 2) * torch.tensor([1.0, 50.0])
    scores[3, 0] = NAN
    scores[8] = NAN
    tasks = ["a"] * 4 + ["b"] * 4 + ["a"] * 4
    found = advantages_within_tasks(scores, tasks, num_generations=4, dropped={5}, **options)
    first = [0, 1, 2, 3, 8, 9, 10, 11]
    a = compute_advantages(scores[first], num_generations=4, **options)
    b = compute_advantages(scores[4:8], num_generations=4, dropped={1}, **options)
    assert torch.equal(found.values[first], a.values)
    assert torch.equal(found.values[4:8], b.values)
    assert torch.equal(
        found.group_zero_std, torch.stack([a.group_zero_std[0], b.group_zero_std[0], a.group_zero_std[1]])
    )
    assert found.unscored.tolist() == [place in (5, 8) for place in range(12)]


def test_one_task_is_the_whole_batch():
    scores = torch.rand(8, 1)
    whole = compute_advantages(scores, num_generations=4, scale="batch")
    assert torch.equal(
        advantages_within_tasks(scores, ["a"] * 8, num_generations=4, scale="batch").values, whole.values
    )


def test_a_task_of_large_rewards_does_not_flatten_the_other():
    scores = torch.tensor([[0.0], [1.0], [0.0], [1000.0]])
    mixed = compute_advantages(scores, num_generations=2, scale="batch").values
    apart = advantages_within_tasks(scores, ["a", "a", "b", "b"], num_generations=2, scale="batch").values
    assert abs(float(mixed[1])) < 0.01
    assert math.isclose(float(apart[1]), 0.5 / (math.sqrt(0.5) + 1e-4), rel_tol=1e-5)
