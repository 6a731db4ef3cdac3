"""A real train() of TRL 1.16 beside ours, with the same completions: logged values and final weights must be equal."""

from __future__ import annotations

import pytest
import torch
from parity_grid import FEATURES, distance, product, save_model, train_both
from side_by_side import differences, run_plaudit, run_trl

pytestmark = pytest.mark.peer

PRODUCT = product()
QUICK = {"default", "gdpo-sequence", "accumulation", "long-cycle", "truncated", "entropy", "moving-reference"}
QUICK |= {
    "luspo-normalize_then_sum-batch-sequence-beta0.04-lora",
    "cispo-sum_then_normalize-none-token-beta0.0-full",
}


def marked(grid):
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in grid]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("policy"))


def equal_to(theirs, ours):
    found = distance(theirs, ours)
    assert len(ours.logs) >= 2
    assert found.worst <= 1e-5, found


@pytest.mark.parametrize("name", marked(FEATURES))
def test_training_equals_trl(name, model, tmp_path):
    equal_to(*train_both(model, tmp_path, FEATURES[name]))


@pytest.mark.parametrize("name", marked(PRODUCT))
def test_every_combination_equals_trl(name, model, tmp_path):
    equal_to(*train_both(model, tmp_path, PRODUCT[name]))


def test_a_difference_is_seen(model, tmp_path):
    theirs, ours = train_both(model, tmp_path, {"max_steps": 2})
    name, value = next(iter(ours.weights.items()))
    ours.weights[name] = value + 2e-5 * value.abs().max()
    assert distance(theirs, ours).weights == pytest.approx(2e-5, rel=1e-2)
    ours.logs[1]["reward"] += 1.0
    assert distance(theirs, ours).metric == "reward"
    del ours.logs[0]["entropy"]
    assert distance(theirs, ours).worst == float("inf")


def test_evaluation_equals_trl(tmp_path, build_model, build_tokenizer):
    options: dict = {"evaluate": True, "max_steps": 2, "num_generations_eval": 2}
    theirs = run_trl(build_model(dtype=torch.float64), build_tokenizer(), tmp_path / "trl", **options)
    ours = run_plaudit(build_model(dtype=torch.float64), build_tokenizer(), tmp_path / "ours", **options)
    equal_to(theirs, ours)
    assert differences(theirs.evaluation, ours.evaluation) == {}
    assert ours.evaluation["eval_reward"] is not None
