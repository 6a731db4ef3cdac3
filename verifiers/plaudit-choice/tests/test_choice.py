"""The public cases, the package's own corpus, options, and properties."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit_choice.corpus import cases
from plaudit_choice.verify import verify_choice

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_mcq_cases.jsonl").read_text().splitlines()]
CHOICES = {"A": "9 m", "B": "12 m", "C": "15 m", "D": "18 m"}


@pytest.mark.parametrize("row", [*PUBLIC, *cases()], ids=lambda row: row["id"])
def test_cases(row):
    assert verify_choice(row["completion"], row["reference"]).score == row["expected"]["score"]


@pytest.mark.parametrize(
    ("answer", "choices", "completion", "score"),
    [
        ("C", None, "Answer: C", 1.0),
        ("C", CHOICES, "Answer: 15 m", 1.0),
        ("15 m", CHOICES, "C", 1.0),
        (2, list(CHOICES.values()), "(C)", 1.0),
        ("C", {"label": ["A", "B", "C"], "text": ["x", "y", "z"]}, "Answer: z", 1.0),
        (["A", "C"], CHOICES, "A and C", 1.0),
        ("Z", CHOICES, "C", None),
        (None, CHOICES, "C", None),
        (True, CHOICES, "C", None),
    ],
)
def test_layouts_of_reference_and_choices(answer, choices, completion, score):
    assert verify_choice(completion, answer, choices).score == score


def test_options():
    reference = {"choices": CHOICES, "answer": "C"}
    assert verify_choice(r"\boxed{15}", reference, bare_value=True).score == 1.0
    assert verify_choice("Answer: Z", "Z", labels="XYZ").score == 1.0
    assert verify_choice("plan: A</scratch>Answer: C", reference, think_end="</scratch>").score == 1.0


def test_messages_are_judged_by_the_last_assistant_turn():
    messages = [{"role": "assistant", "content": "Answer: A"}, {"role": "assistant", "content": "Answer: C"}]
    assert verify_choice(messages, {"choices": CHOICES, "answer": "C"}).score == 1.0


TEMPLATES = [
    "Answer: {}",
    "The answer is ({}).",
    r"\boxed{{{}}}",
    "({})",
    "**{}**",
    "答案是{}",
    "So the correct option is {}.",
]


@given(st.sampled_from(TEMPLATES), st.sampled_from("ABCD"), st.sampled_from("ABCD"))
def test_right_iff_the_letter_is_right(template, stated, right):
    verdict = verify_choice(template.format(stated), {"choices": CHOICES, "answer": right})
    assert verdict.score == float(stated == right)
    assert verdict.extracted == stated


@given(st.text(alphabet=string.ascii_letters + " .,:()\n{}\\*AB答案是", max_size=80))
def test_any_text_is_judged_and_no_two_answers_are_right(text):
    scores = [verify_choice(text, {"choices": CHOICES, "answer": label}).score for label in CHOICES]
    assert sum(scores) <= 1.0


@pytest.mark.parametrize("text", ["answer is " * 50_000, "(" * 100_000, "\\boxed{" * 50_000, "A, " * 100_000])
def test_long_hostile_text_returns(text):
    assert verify_choice(text, {"choices": CHOICES, "answer": "C"}).score == 0.0
