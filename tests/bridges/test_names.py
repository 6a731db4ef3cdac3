"""Functions of the bridges by the names of installed rewards."""

from __future__ import annotations

import asyncio

import pytest
from plaudit import UsageError
from plaudit.bridges import verifiers, verl
from plaudit.bridges.named import standalone


def test_functions_have_the_names_of_rewards():
    assert verl.exact.__name__ == verifiers.exact.__name__ == "exact"
    assert asyncio.run(verl.exact("data", "4", "4"))["score"] == 1.0
    assert asyncio.run(verl.math("data", "so \\boxed{0.5}", "\\frac12"))["score"] == 1.0
    with pytest.raises(AttributeError, match="no reward"):
        verl.no_such_reward_here  # noqa: B018


def test_options_are_checked_and_kept_apart():
    assert standalone("exact") is standalone("exact", {})
    assert standalone("regex", {"match": "full"}) is not standalone("regex", {"match": "search"})
    with pytest.raises(UsageError, match="no_such_option"):
        standalone("exact", {"no_such_option": 1})
