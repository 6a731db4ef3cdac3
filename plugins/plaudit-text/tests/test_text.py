"""Every reward of the package, in tables; TRL's built-ins beside ours."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit import UsageError
from plaudit_text import formats, length, repetition
from plaudit_text.corpus import cases
from plaudit_text.diversity import diversity
from plaudit_text.language import language
from plaudit_text.rules import verify_format
from plaudit_text.style import Style

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_format_cases.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("row", [*PUBLIC, *cases()], ids=lambda row: row["id"])
def test_format_cases(row):
    score = verify_format(row["completion"], row["reference"]).score
    expected = row["expected"]["score"]
    assert score is None if expected is None else score == pytest.approx(expected)


def test_ambiguous_policies_are_options():
    upper = "<THINK>a</THINK><ANSWER>9</ANSWER>"
    assert verify_format(upper, {"rule": "think_then_answer"}, case_sensitive=False).score == 1.0
    prefilled = {"rule": "think_then_text", "think_prefilled": True}
    assert verify_format("</think>The sum is 9.", prefilled, allow_empty_think=True).score == 1.0


TAG_SOUP = st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "</answer>", "a", " ", "\n", "\u200b"])).map(
    "".join
)


@given(TAG_SOUP)
def test_think_then_answer_agrees_with_a_second_derivation(text):
    """The rule read literally: split at the four tags in order, each occurring once."""
    tags = ["<think>", "</think>", "<answer>", "</answer>"]
    rest, parts = text, []
    for tag in tags:
        before, found, rest = rest.partition(tag)
        parts.append(before if found else None)
    in_order = None not in parts and all(text.count(tag) == 1 for tag in tags)

    def blank(part):
        return not part.replace("\u200b", "").strip()

    wanted = (
        in_order and not blank(parts[1]) and not blank(parts[3]) and blank(parts[0]) and blank(parts[2]) and blank(rest)
    )
    assert formats.think_answer_format([text]) == [float(wanted)]


@pytest.mark.parametrize(
    ("text", "incremental", "counted"),
    [
        ("<reasoning>a</reasoning><answer>b</answer>", 1.0, 0.5),
        ("<reasoning>a</reasoning><answer>b</answer> bye", 1.0 - 0.003, 0.5 - 0.003),
        ("<reasoning><reasoning>a", 0.25, 0.0),
        ("", 0.0, 0.0),
    ],
)
def test_incremental_formats(text, incremental, counted):
    message = [{"role": "assistant", "content": text}]
    assert formats.incremental_format([text, message]) == pytest.approx([incremental] * 2)
    assert formats.xml_count([text, message]) == pytest.approx([counted] * 2)


def test_diversity_pays_what_others_lack():
    group = ["the cat sat down", "the cat sat down", "a dog ran off fast"]
    assert diversity(group, n=2) == [0.0, 0.0, 1.0]
    assert diversity(["alone here"]) == [0.0]


def test_style_counts_and_floors():
    reward = Style()
    assert reward(["Fine."]) == [0.0]
    assert reward(["I apologize. As an AI language model, I am sorry."]) == pytest.approx([-0.3])
    assert reward(["i'm sorry " * 20]) == [-0.5]
    with pytest.raises(UsageError, match="not a regular expression"):
        Style(patterns=["("])


def test_language_abstains_on_short_text():
    english = "This sentence is plainly written in the English language."
    chinese = "这句话显然是用中文写成的,没有别的语言。"
    scores = language([english, chinese, "12"])
    assert scores[0] > 0.9
    assert scores[1] == 0.0
    assert scores[2] is None
    assert language([chinese], language="zh")[0] > 0.9


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: length.soft_overlong([[1]], max_completion_len=0), "max_completion_len must be above 0, got 0"),
        (lambda: length.target_length(["x"]), "unit = 'words'"),
        (lambda: repetition.repetition(["x"], n=0), "n must be at least 1"),
        (lambda: repetition.repetition(["x"], max_penalty=1.0), "must not be above 0"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(UsageError, match=match):
        call()


def test_target_length():
    ids = [[0] * 90, [0] * 105, [0] * 500]
    assert length.target_length(["x"] * 3, ids, target=100, tolerance=5) == pytest.approx([-0.05, 0.0, -1.0])
    assert length.target_length(["a b c"], target=1, scale=0.1, unit="words") == pytest.approx([-0.2])


@pytest.mark.peer
def test_same_numbers_as_trl():
    from trl.rewards import (
        get_cosine_scaled_reward,
        get_repetition_penalty_reward,
        get_soft_overlong_punishment,
        think_format_reward,
    )

    rng = random.Random(0)
    ids = [[rng.randrange(4) for _ in range(rng.randrange(0, 60))] for _ in range(50)]
    texts = ["x"] * len(ids)
    ours = length.soft_overlong(ids, max_completion_len=50, soft_punish_cache=20)
    assert ours == pytest.approx(get_soft_overlong_punishment(50, 20)(ids))
    theirs = get_repetition_penalty_reward(3, -1.0)(completion_ids=ids)
    assert repetition.repetition(texts, ids) == pytest.approx(theirs)

    tags = ["<think>", "</think>", "a\n", "b"]
    soup = ["".join(rng.choices(tags, k=rng.randrange(6))) for _ in range(300)]
    messages = [[{"role": "assistant", "content": text}] for text in soup]
    assert formats.think_format(messages) == think_format_reward(messages)

    answers = [rng.choice(["\\boxed{4}", "\\boxed{5}"]) for _ in ids]
    completions = [[{"role": "assistant", "content": text}] for text in answers]
    theirs = get_cosine_scaled_reward(40)(completions=completions, solution=["$4$"] * len(ids), completion_ids=ids)
    ours = [length.cosine_value(len(own), "4" in text, max_len=40) for own, text in zip(ids, answers, strict=True)]
    assert ours == pytest.approx(theirs)
