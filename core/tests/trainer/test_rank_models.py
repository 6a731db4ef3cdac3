"""Models with more to them than weights, on two gloo ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from test_ranks import start

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
MAIN = Path(__file__).with_name("rank_models.py")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """What each of two ranks kept, by name."""
    folder = tmp_path_factory.mktemp("models")
    processes = start(folder, 2, main=MAIN)
    try:
        texts = [process.communicate(timeout=800)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode == 0, text[-3000:]
    names = ("images", "experts", "resumed")
    return {name: [torch.load(folder / f"{name}_{rank}.pt") for rank in range(2)] for name in names}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("name", ["images", "experts"])
def test_ranks_hold_the_same_weights(name, saved):
    first, second = saved[name]
    assert equal(first["policy"], second["policy"])
    assert equal(first["reference"], second["reference"])


def test_a_resumed_run_ends_with_the_same_policy_and_reference(saved):
    for whole, resumed in zip(saved["experts"], saved["resumed"], strict=True):
        assert equal(whole["policy"], resumed["policy"])
        assert equal(whole["reference"], resumed["reference"])
        assert not equal(whole["policy"], whole["reference"])
