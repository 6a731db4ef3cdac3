"""The puzzle verifier: the public cases, further cases of their kinds, and a property."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit_gym.corpus import cases
from plaudit_gym.expressions import BadExpression, evaluate, shown
from plaudit_gym.puzzles import puzzle

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_puzzle_cases.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("row", PUBLIC, ids=lambda row: row["id"])
def test_public_cases(row):
    began = time.monotonic()
    assert puzzle(row["completion"], row["reference"]).score == row["expected"]["score"]
    assert time.monotonic() - began < 2


def countdown(target, *numbers):
    return {"rule": "countdown", "target": target, "numbers": list(numbers)}


CASES = [
    (countdown(24, 3, 8), "(" * 400 + "3*8" + ")" * 400, 0),
    ({}, "1", None),
    (None, "1", None),
]


@pytest.mark.parametrize("row", cases(), ids=lambda row: row["id"])
def test_cases_that_ship_with_the_package(row):
    assert puzzle(row["completion"], row["reference"]).score == row["expected"]["score"]


@pytest.mark.parametrize(("reference", "completion", "score"), CASES)
def test_cases(reference, completion, score):
    assert puzzle(completion, reference).score == score


@given(st.randoms(use_true_random=False))
def test_expressions_are_computed_as_python_does(rng: random.Random):
    """Against Python's own evaluation with exact fractions."""
    from fractions import Fraction

    def build(depth):
        if depth == 0 or rng.random() < 0.3:
            return str(rng.randint(0, 30))
        return f"({build(depth - 1)}{rng.choice([' + ', '-', '*', ' / '])}{build(depth - 1)})"

    text = build(4)
    numbers = "".join(f"F({part})" if part.isdigit() else part for part in __import__("re").split(r"(\d+)", text))
    try:
        wanted = eval(numbers, {"F": Fraction})
    except ZeroDivisionError:
        with pytest.raises(BadExpression, match="zero"):
            evaluate(text)
        return
    assert evaluate(text).value == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [("7/2", "3.5"), ("1/3", "1/3"), ("-(2-5)", "3"), ("2 × 3", "6"), ("-4", "-4"), ("10/4*2", "5")],
)
def test_shown(text, value):
    assert shown(evaluate(text, signs=True).value) == value
