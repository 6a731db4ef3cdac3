"""Tables for each verifier, and properties."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit import UsageError, load_reward
from plaudit_match.corpus import cases
from plaudit_match.exact import Exact
from plaudit_match.numeric import Numeric, numbers_in, read_number
from plaudit_match.overlap import TokenF1, token_f1
from plaudit_match.pattern import Pattern


@pytest.mark.parametrize(
    ("options", "completion", "reference", "score"),
    [
        ({}, "Oslo", "Oslo", 1.0),
        ({}, " Oslo\n", "Oslo", 1.0),
        ({}, "oslo", "Oslo", 0.0),
        ({"ignore_case": True}, "oslo", "Oslo", 1.0),
        ({"ignore_punctuation": True}, "Oslo.", "Oslo", 1.0),
        ({"ignore_case": True, "ignore_articles": True}, "The sea", "sea", 1.0),
        ({}, "Ｏslo", "Oslo", 1.0),
        ({}, "<think>Rome</think>Oslo", "Oslo", 1.0),
        ({}, "It is Oslo", "Oslo", 0.0),
        ({"answer_in": "last_line"}, "Let me see.\nOslo", "Oslo", 1.0),
        ({"answer_in": "answer_tag"}, "<answer>Rome</answer> no <answer> Oslo </answer>", "Oslo", 1.0),
        ({"answer_in": "answer_tag"}, "Oslo", "Oslo", 0.0),
        ({"answer_in": "boxed"}, r"\boxed{\text{a}}", r"\text{a}", 1.0),
        ({"answer_in": "boxed"}, r"\boxed{a", "a", 0.0),
        ({}, "Rome", ["Oslo", "Rome"], 1.0),
        ({}, "42", 42, 1.0),
        ({}, "x", None, None),
        ({}, "x", "", None),
        ({"ignore_punctuation": True}, "", "...", None),
    ],
)
def test_exact(options, completion, reference, score):
    assert Exact(**options).verify(completion, reference).score == score


@pytest.mark.parametrize(
    ("options", "completion", "reference", "score"),
    [
        ({}, "The total is 1,234.50 dollars.", "1234.5", 1.0),
        ({}, "First 3, then 7.", "7", 1.0),
        ({}, "First 7, then 3.", "7", 0.0),
        ({}, "−5", "-5", 1.0),
        ({}, "50%", "0.5", 1.0),
        ({}, "3/4", 0.75, 1.0),
        ({}, "1e-3", "0.001", 1.0),
        ({}, "about x7 and v2", "2", 0.0),
        ({}, "none", "1", 0.0),
        ({"take": "first"}, "72 is larger than 23.", "72", 1.0),
        ({"take": "first"}, "23 is larger than 72.", "72", 0.0),
        ({"take": "only"}, "it is 7", "7", 0.0),
        ({"take": "only"}, "$7", "7", 1.0),
        ({"tolerance": 0.01}, "3.14", "3.1416", 1.0),
        ({"absolute": 0.5}, "10.4", "10", 1.0),
        ({}, "3.14", "3.1416", 0.0),
        ({}, "7", "seven", None),
        ({}, "7", None, None),
        ({}, "9" * 100_000, "9", 0.0),
    ],
)
def test_numeric(options, completion, reference, score):
    assert Numeric(**options).verify(completion, reference).score == score


@pytest.mark.parametrize(
    ("options", "completion", "reference", "score"),
    [
        ({}, "call 555-1234 now", r"\d{3}-\d{4}", 1.0),
        ({"match": "full"}, "call 555-1234 now", r"\d{3}-\d{4}", 0.0),
        ({"forbid": True}, "clean", "dirty", 1.0),
        ({"forbid": True}, "dirty", "dirty", 0.0),
        ({}, "b", ["a", "b"], 1.0),
        ({}, "x", "(", None),
        ({}, "x", None, None),
        ({}, "a" * 50_000 + "!", "^(a+)+$", 0.0),
    ],
)
def test_regex(options, completion, reference, score):
    assert Pattern(**options).verify(completion, reference).score == score


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("the cat sat", "a cat sat down", 2 * 2 / (2 + 3)),
        ("cat cat", "cat", 2 / 3),
        ("dog", "cat", 0.0),
        ("The", "a", 1.0),
        ("", "cat", 0.0),
    ],
)
def test_f1(answer, reference, expected):
    assert token_f1(answer, reference) == pytest.approx(expected)
    assert TokenF1().verify(answer, ["zzz", reference]).score == pytest.approx(expected)


def test_f1_threshold_and_missing_reference():
    assert TokenF1(at_least=0.9).verify("the cat sat", "a cat sat down").score == 0.0
    assert TokenF1().verify("x", None).score is None


def test_unknown_place_names_the_choices():
    with pytest.raises(UsageError, match="answer_tag"):
        Exact(answer_in="footnote").verify("x", "x")


@given(st.fractions(min_value=-(10**6), max_value=10**6))
def test_numbers_are_read_exactly(value):
    written = f"{value.numerator}/{value.denominator}"
    assert read_number(written) == value
    assert numbers_in(f"so it is {written}.") == [value]
    assert Numeric().verify(written, str(value + Fraction(1, 10**9))).score == 0.0


@given(st.text(), st.text())
def test_f1_is_symmetric_and_one_only_for_equal_bags(left, right):
    assert token_f1(left, right) == token_f1(right, left)
    assert token_f1(left, left) == 1.0


def test_by_name_as_a_reward():
    reward = load_reward("numeric", options={"tolerance": 0.1})
    assert reward(completions=["9.5", "5"], answer=["10", "10"]) == [1.0, 0.0]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_corpus(case):
    expected = case["expected"]
    expected = expected["score"] if isinstance(expected, dict) else expected
    scores = load_reward(case["kind"])(completions=[case["completion"]], gold=[case["gold"]])
    assert scores == [expected if expected is None else pytest.approx(float(expected))]
