"""The puzzle verifier: the public cases, further cases of their kinds, and a property."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
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


def ordered(direction, *numbers):
    return {"rule": "sorted_numbers", "numbers": list(numbers), "direction": direction}


MOVES = {"rule": "moves_json"}
CASES = [
    (countdown(24, 3, 8), "8*3", 1),
    (countdown(24, 3, 8), "<think>3*9? no</think>The answer is 3*8.", 1),
    (countdown(24, 3, 8), "<answer>1+1</answer> no: <answer> (3 * 8) </answer>", 1),
    (countdown(24, 3, 8), r"\boxed{3 \times 8}", 1),
    (countdown(24, 3, 8), r"$3 \cdot 8$", 1),
    (countdown(24, 3, 8), "3*8 = 24", 1),
    (countdown(24, 3, 8), "24 = 3*8", 1),
    (countdown(24, 3, 8), "3*8 = 25", 0),
    (countdown(24, 3, 8), "3*8*1", 0),
    (countdown(24, 3, 8), "3+8", 0),
    (countdown(24, 3, 8), "", 0),
    (countdown(24, 3, 8), "3*8 if True else 0", 0),
    (countdown(24, 3, 8), "__import__('os').system('true') or 3*8", 0),
    (countdown(24, 3, 8), "print(3*8)", 0),
    (countdown(24, 3, 8), "38-14", 0),
    (countdown(24, 3, 8), "3**8", 0),
    (countdown(24, 3, 8), "(" * 400 + "3*8" + ")" * 400, 0),
    (countdown(5, 3, 8), "-3 + 8", 1),
    (countdown(11, 3, 8), "8-(-3)", 1),
    (countdown(1, 0, 1), "1/0", 0),
    (countdown(1, 3, 3, 3), "(3/3)*3", 0),
    (countdown(5, 1, 3, 5), "5/(1/3)*3", 0),
    (countdown(15, 1, 3, 5), "5/(1/3)", 1),
    (countdown(1, 10, 3, 3), "10/3-3*3", 0),
    (countdown(0.5, 1, 2), "1/2", 1),
    (countdown(2, 1, 1), "1+1.0", 1),
    (countdown(24, 3, 8), r"\frac{3}{8}", 0),
    (countdown(24, "3", "8"), "3*8", 1),
    ({"rule": "countdown", "target": 3}, "1+2", None),
    ({"rule": "countdown", "numbers": [1, 2]}, "1+2", None),
    ({"rule": "countdown", "target": "x", "numbers": [1, 2]}, "1+2", None),
    ({"rule": "chess"}, "e4", None),
    ({}, "1", None),
    (None, "1", None),
    (ordered("ascending", 3.25, -1.5, 2.71), "['-1.5', '2.71', '3.25']", 1),
    (ordered("ascending", 3.25, -1.5, 2.71), "[-1.5, 2.71, 3.25]", 1),
    (ordered("ascending", 3.25, -1.5, 2.71), "-1.50, 2.71, 3.25", 1),
    (ordered("descending", 3.25, -1.5, 2.71), "[-1.5, 2.71, 3.25]", 0),
    (ordered("descending", 1, 2, 2), "[2, 2, 1]", 1),
    (ordered("descending", 1, 2, 2), "[2, 1]", 0),
    (ordered("ascending", "0.1", "0.2"), "[0.1, 0.2]", 1),
    (ordered("ascending", 1, 2), "Sorted: [1, 2]", 1),
    (ordered("ascending", 1, 2), "[1, nan]", 0),
    (ordered("ascending", 1, 2), "one, two", 0),
    (ordered("ascending", 1, 2), "[1, 2, 3]", 0),
    (ordered("ascending", 1, 2), "[__import__('os'), 2]", 0),
    (ordered("ascending", 1, 2), "[1e999999999, 2]", 0),
    (ordered("sideways", 1, 2), "[1, 2]", None),
    (MOVES, '[{"unit": "a1", "to": "b2"}]', 1),
    (MOVES, '```json\n[{"unit": "a1", "to": "b2"}]\n```', 1),
    (MOVES, '[{"unit": "a1", "to": ""}]', 0),
    (MOVES, '[{"to": "b2"}]', 0),
    (MOVES, '{"unit": "a1", "to": "b2"}', 0),
    (MOVES, '["a1"]', 0),
    (MOVES, "[]", 0),
    (MOVES, "[null]", 0),
    (MOVES, "[{'unit': 'a1', 'to': 'b2'}]", 0),
    (MOVES, "no moves", 0),
    (MOVES | {"moves": [{"unit": "a", "to": "b"}]}, '[{"unit": "a", "to": "b"}]', 1),
    (MOVES | {"moves": [{"unit": "a", "to": "b"}]}, '[{"unit": "a", "to": "c"}]', 0),
]


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
