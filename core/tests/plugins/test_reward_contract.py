"""What a reward function may return, and how a breach is said."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from plaudit import ContractError, load_reward, load_verifier


async def slow_lengths(completions):
    return [float(len(c)) for c in completions]


async def slow_exact(completion, reference):
    return completion == reference


RETURNED = [
    ([1, 0.5], [1.0, 0.5]),
    ((True, False), [1.0, 0.0]),
    ([None, float("nan")], [None, None]),
    (np.array([1.0, np.nan]), [1.0, None]),
    (np.array([1, 2]), [1.0, 2.0]),
    ([np.float32(0.5), np.int64(2)], [0.5, 2.0]),
    ([np.bool_(True), np.array([2.0])], [1.0, 2.0]),
    (torch.tensor([1.0, 2.0]), [1.0, 2.0]),
    ([torch.tensor(1.5), torch.tensor([2])], [1.5, 2.0]),
    ([float("inf"), -math.inf], [math.inf, -math.inf]),
    ((x for x in (1.0, 2.0)), [1.0, 2.0]),
]


BREACHES = [
    ([1.0], "returned 1 scores for 2 completions"),
    ([1.0, 2.0, 3.0], "returned 3 scores for 2 completions"),
    ([], "returned 0 scores for 2 completions"),
    (None, "returned None (NoneType); expected a list of 2 floats"),
    (1.0, "returned 1.0 (float); expected a list"),
    ("ab", "returned 'ab' (str); expected a list"),
    ({"a": 1.0, "b": 2.0}, "(dict); expected a list"),
    (["1.0", 2.0], "returned the score '1.0' (str)"),
    ([[1.0], 2.0], "returned the score [1.0] (list)"),
    ([np.array([1.0, 2.0]), 1.0], "returned the score array([1., 2.])"),
    ([1j, 1.0], "(complex)"),
    (np.ones((2, 2)), "returned the score [1.0, 1.0] (list)"),
]


@pytest.mark.parametrize(("returned", "scores"), RETURNED)
def test_returns_become_floats_or_none(returned, scores) -> None:
    got = load_reward(lambda completions: returned)(completions=["a", "b"])
    assert got == scores
    assert all(score is None or type(score) is float for score in got)


@pytest.mark.parametrize(("returned", "says"), BREACHES)
def test_breaches_name_the_reward(returned, says) -> None:
    with pytest.raises(ContractError) as caught:
        load_reward(lambda completions: returned, name="mine")(completions=["a", "b"])
    assert says in str(caught.value)
    assert "'mine'" in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_coroutine_from_a_plain_function_is_said() -> None:
    with pytest.raises(ContractError, match="declare it with async def"):
        load_reward(lambda completions: slow_lengths(completions))(completions=["a"])
    with pytest.raises(ContractError, match="declare it with async def"):
        load_verifier(lambda completion, reference: slow_exact(completion, reference))("a", "b")
