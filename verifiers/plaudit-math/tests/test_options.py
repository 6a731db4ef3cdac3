"""Each option against its default, and the contract of the function."""

from __future__ import annotations

import pickle

import pytest
from plaudit import UsageError
from plaudit_math import verify

CHANGES = [
    # completion, reference, score by default, option, score with it
    (r"<think>\boxed{15}</think>not sure", "15", 0.0, {"scope": "all"}, 1.0),
    ("The answer is 5.", "5", 1.0, {"require_box": True}, 0.0),
    (r"\boxed{14}", r"14\text{ cm}", 1.0, {"units": "required"}, 0.0),
    (r"\boxed{14\text{ m}}", r"14\text{ cm}", 0.0, {"units": "ignore"}, 1.0),
    (r"\boxed{0.14\text{ m}}", r"14\text{ cm}", 1.0, {"convert_units": False}, 0.0),
    (r"\boxed{36}", r"36\%", 1.0, {"bare_percent": False}, 0.0),
    (r"\boxed{0.67}", r"\frac23", 0.0, {"decimal_digits": 2}, 1.0),
    (r"\boxed{1.414214}", r"\sqrt2", 1.0, {"decimal_digits": 0}, 0.0),
    (r"\boxed{\frac{100}{7}}", "14.3", 1.0, {"gold_precision": False}, 0.0),
    (r"\boxed{3.1}", "3.14", 0.0, {"rel_tol": 0.02}, 1.0),
    (r"\boxed{y=11}", "x=11", 0.0, {"any_variable": True}, 1.0),
    (r"\boxed{-3<y<2}", "-3<x<2", 0.0, {"any_variable": True}, 1.0),
    (r"\boxed{\log x}", r"\ln x", 0.0, {"log_base": "e"}, 1.0),
    (r"\boxed{2,5}", "(2,5)", 1.0, {"strict_forms": True}, 0.0),
]


@pytest.mark.parametrize(("completion", "reference", "before", "option", "after"), CHANGES)
def test_option(completion: str, reference: str, before: float, option: dict, after: float) -> None:
    assert verify(completion, reference).score == before
    assert verify(completion, reference, **option).score == after


@pytest.mark.parametrize(
    "option", [{"scope": "some"}, {"units": "maybe"}, {"log_base": "2"}, {"timeout_s": 0}, {"timeout_s": 60}]
)
def test_a_wrong_option_says_what_is_allowed(option: dict) -> None:
    with pytest.raises(UsageError, match=next(iter(option))):
        verify("5", "5", **option)


@pytest.mark.parametrize(
    ("completion", "gold", "prompt", "score"),
    [
        (r"\boxed{2:5}", "10:25", None, 1.0),
        (r"\boxed{2:5}", "10:25", "At what time does the bus leave?", 0.0),
        (r"\boxed{8,5,2}", "2,5,8", None, 1.0),
        (r"\boxed{8,5,2}", "2,5,8", "List the roots in increasing order.", 0.0),
        ("How many apples are there in 7 bags of one?", "7", "How many apples are there in 7 bags of one? Think.", 0.0),
    ],
)
def test_the_prompt_settles_what_is_ambiguous(completion: str, gold: str, prompt: str | None, score: float) -> None:
    assert verify(completion, gold, prompt).score == score
    messages = [{"role": "user", "content": prompt}] if prompt else None
    assert verify(completion, gold, messages).score == score


@pytest.mark.parametrize(
    "reference", ["", "   ", None, [], r"\boxed{}", "The route of the second boy is six times longer."]
)
def test_a_reference_that_cannot_judge_abstains(reference: object) -> None:
    verdict = verify(r"\boxed{8}", reference)
    assert verdict.score is None
    assert "reference" in verdict.reason


@pytest.mark.parametrize(
    "reference", [7, 7.0, "7", "$7$", r"\boxed{7}", "3+4 is 7\n#### 7", ["9", "7"], "<answer>7</answer>"]
)
def test_forms_of_the_reference(reference: object) -> None:
    assert verify(r"\boxed{7}", reference).score == 1.0
    assert verify(r"\boxed{8}", reference).score == 0.0


def test_messages_are_read_from_the_last_assistant_turn() -> None:
    messages = [{"role": "user", "content": r"\boxed{1}"}, {"role": "assistant", "content": r"\boxed{7}"}]
    assert verify(messages, "7").score == 1.0
    assert verify(messages, "1").score == 0.0


def test_the_verdict_says_what_was_extracted_and_where() -> None:
    verdict = verify(r"First \boxed{6}, no: \boxed{9}.", "6")
    assert (verdict.score, verdict.extracted) == (0.0, "9")
    assert "last box" in verdict.reason


def test_it_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(verify)) is verify
