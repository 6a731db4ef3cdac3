"""Evaluation on two ranks gives what one process gives, whatever the rows leave to each."""

from __future__ import annotations

from pathlib import Path

import pytest
from evaluating_main import UNEVEN, best, uneven
from side_by_side import differences
from test_many_ranks import run_ranks

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    return run_ranks(folder, 2, "uneven", "best", main=Path(__file__).with_name("evaluating_main.py"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return uneven(tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize("case", range(len(UNEVEN)), ids=map(str, UNEVEN))
def test_every_row_counts_once_and_every_loss_is_that_of_one_process(case, alone, two):
    """Each loss is a sum over all ranks' tokens or rows over their number, so no way to share them out changes it."""
    one, (first, second) = alone[case], [rank[case] for rank in two["uneven"]]
    assert differences(one["metrics"], first["metrics"]) == {}
    assert differences(first["metrics"], second["metrics"]) == {}
    assert sorted(first["scored"] + second["scored"]) == sorted(one["scored"])
    assert len(one["scored"]) == UNEVEN[case]["count"] * UNEVEN[case].get("num_generations_eval", 4)
    assert first["logged"] == one["logged"] == [len(one["scored"])]
    assert abs(one["metrics"]["eval_loss"]) > 1e-3


def test_the_best_model_by_one_of_several_sets_is_that_of_one_process(two, tmp_path):
    one, (first, second) = best(tmp_path), two["best"]
    assert one["best"] == first["best"] == second["best"] == 2
    assert len(one["logs"]) == 6
    for line, other in zip(one["logs"], first["logs"], strict=True):
        assert differences(line, other) == {}
    assert first["weights"] == second["weights"] == pytest.approx(one["weights"], rel=1e-6)
