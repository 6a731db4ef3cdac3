"""The public cases, the package's own corpus, all 25 kinds, combinations, and properties."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit_ifeval.checks import CHECKS
from plaudit_ifeval.corpus import cases
from plaudit_ifeval.keywords import occurrences
from plaudit_ifeval.verify import verify_ifeval
from plaudit_ifeval.words import sentences, words

PUBLIC = [json.loads(line) for line in (Path(__file__).parent / "public_ifeval_cases.jsonl").read_text().splitlines()]
IFEVAL = """
keywords:existence keywords:frequency keywords:forbidden_words keywords:letter_frequency
language:response_language length_constraints:number_sentences length_constraints:number_paragraphs
length_constraints:number_words length_constraints:nth_paragraph_first_word
detectable_content:number_placeholders detectable_content:postscript detectable_format:number_bullet_lists
detectable_format:constrained_response detectable_format:number_highlighted_sections
detectable_format:multiple_sections detectable_format:json_format detectable_format:title
combination:two_responses combination:repeat_prompt startend:end_checker change_case:capital_word_frequency
change_case:english_capital change_case:english_lowercase punctuation:no_comma startend:quotation
""".split()


@pytest.mark.parametrize("row", [*PUBLIC, *cases()], ids=lambda row: row["id"])
def test_cases(row):
    assert verify_ifeval(row["completion"], row["reference"]).score == row["expected"]["score"]


def test_all_25_kinds_are_there_and_have_a_passing_and_a_failing_case():
    assert len(IFEVAL) == 25
    assert set(IFEVAL) <= set(CHECKS)
    scores = {name: {row["expected"]["score"] for row in cases() if row["family"] == name} for name in CHECKS}
    assert {name for name, seen in scores.items() if not {0, 1} <= seen} == set()


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_no_instruction_is_kept_by_an_empty_text(name):
    kwargs = {
        key: value
        for row in cases()
        if row["family"] == name
        for key, value in row["reference"]["kwargs"].items()
        if value != []
    }
    assert verify_ifeval(" \n", {"instruction_id": name, "kwargs": kwargs}).score in (0.0, None)


def test_credit_and_loose():
    both = {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, {}]}
    assert verify_ifeval('Sure, here:\n"fine"', both).score == 0.0
    assert verify_ifeval("fine", both, credit="fraction").score == 0.5
    assert verify_ifeval('Sure, here:\n"fine"', both, loose=True).score == 1.0


def test_a_list_of_ids_beside_a_kwargs_column():
    assert verify_ifeval("go go", ["keywords:frequency"], [{"keyword": "go", "frequency": 2}]).score == 1.0
    assert verify_ifeval("go", ["keywords:frequency"], [{}, {}]).score is None


def test_language_is_the_same_in_any_order():
    texts = ["Das ist ein kurzer Satz auf Deutsch.", "Ceci est une phrase française.", "Questa è una frase italiana."]
    reference = {"instruction_id": "language:response_language", "kwargs": {"language": "de"}}
    seen = {text: {verify_ifeval(text, reference).score for _ in range(5)} for text in random.sample(texts, 3)}
    assert [seen[text] for text in texts] == [{1.0}, {0.0}, {0.0}]


PLAIN = st.lists(st.text(alphabet="abcdefgh", min_size=1, max_size=6), min_size=1, max_size=12)


@given(PLAIN)
def test_words_and_occurrences_count_what_was_joined(parts):
    text = " ".join(parts)
    assert words(text) == parts
    assert occurrences(parts[0], text.upper()) == parts.count(parts[0])
    assert occurrences(parts[0], "x".join(["", *parts, ""])) == 0


@given(st.lists(PLAIN, min_size=1, max_size=5))
def test_sentences_count_what_was_joined(parts):
    text = " ".join(" ".join(part) + "zz." for part in parts)
    assert len(sentences(text)) == len(parts)


@given(st.sampled_from(sorted(CHECKS)), st.text(max_size=200))
def test_any_text_is_judged(name, text):
    row = next(row for row in cases() if row["family"] == name and row["expected"]["score"] is not None)
    assert verify_ifeval(text, row["reference"]).score in (0.0, 1.0)
