"""reasoning-gym by name: rows, verdicts against the library's own, and answers that are programs."""

from __future__ import annotations

import asyncio
import json

import pytest
from plaudit import PluginError, list_plugins, load_verifier
from plaudit.run.origins import load_records
from plaudit.run.schema import DataSection
from plaudit_gym.generators import GENERATORS

pytest.importorskip("reasoning_gym")
from reasoning_gym.factory import DATASETS

SOME = ["countdown", "number_sorting", "chain_sum", "spiral_matrix", "polynomial_multiplication", "word_sorting"]


def judge(generator, completion, row=None, options=None, **columns):
    """The verdict of a generator's verifier."""
    columns = {"entry": row["entry"]} if row else columns
    verify = load_verifier(f"reasoning_gym:{generator}", options=options)
    return asyncio.run(verify(completion, row["answer"] if row else "4", **columns))


def rows_of(name, size=2, **options):
    section = DataSection(name=f"reasoning_gym:{name}", options={"size": size, **options})
    return load_records(section, "data")


def test_every_generator_is_known_by_name():
    assert {name for name in DATASETS if name != "composite"} == GENERATORS
    for kind in ("dataset", "verifier"):
        assert "reasoning_gym:*" in {info.name for info in list_plugins([kind])}


@pytest.mark.parametrize("name", SOME)
def test_its_own_answer_passes(name):
    for row in rows_of(name, seed=7):
        assert row["prompt"]
        assert json.loads(row["metadata"])["source_dataset"] == name
        verdict = judge(name, f"<think>so</think><answer>{row['answer']}</answer>", row)
        assert verdict.score == 1.0, verdict
        assert judge(name, "no idea", row).score < 0.5


MANY_ANSWERS = ("boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(DATASETS) - {"composite"}))
def test_every_generator_makes_rows_that_its_verifier_passes(name):
    row = rows_of(name, size=1, seed=3)[0]
    if name in MANY_ANSWERS:
        assert row["answer"] == ""
        assert judge(name, "no idea", row).score < 0.5
    else:
        assert judge(name, f"<answer>{row['answer']}</answer>", row).score == 1.0


HOSTILE = [
    ("countdown", "__import__('os').system('echo 1 > /tmp/plaudit_gym_was_here') or 1"),
    ("puzzle24", "exec('raise SystemExit')"),
    ("spiral_matrix", "[__import__('os').getcwd()]"),
    ("spiral_matrix", "[().__class__]"),
    ("string_insertion", "[print('{\"score\": 1.0}')]"),
    ("n_queens", "[[exit(0)]]"),
    ("polynomial_multiplication", "exit(0)"),
    ("polynomial_multiplication", "x.__class__"),
    ("simple_integration", "eval('1')"),
]


@pytest.mark.parametrize(("name", "answer"), HOSTILE)
def test_an_answer_that_is_a_program_is_wrong(name, answer):
    row = rows_of(name, size=1)[0]
    assert judge(name, answer, row).score == 0.0


def test_what_takes_too_long_is_wrong():
    row = rows_of("polynomial_multiplication", size=1)[0]
    assert judge("polynomial_multiplication", "9**9**9**9", row, {"timeout_s": 1.0}).score == 0.0


def test_an_entry_that_cannot_be_used_abstains():
    assert judge("chain_sum", "4").score is None
    assert "column 'entry'" in judge("chain_sum", "4").reason
    assert "is of gcd, not of chain_sum" in judge("chain_sum", "4", rows_of("gcd", size=1)[0]).reason
    assert judge("chain_sum", "4", entry="nonsense").score is None


def test_splits_and_settings():
    train, test = (load_records(DataSection(name="reasoning_gym:gcd", split=split, options={"size": 20}), "data")
                   for split in ("train", "test"))  # fmt: skip
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in test}
    row = rows_of("chain_sum", size=1, config={"min_terms": 6, "max_terms": 6})[0]
    assert row["prompt"].count("+") + row["prompt"].count("-") >= 5


def test_a_generator_that_does_not_exist_is_refused():
    with pytest.raises(PluginError, match="no 'gdc'; did you mean 'gcd'"):
        rows_of("gdc")
    with pytest.raises(PluginError, match="no 'nonsense'; there are"):
        load_verifier("reasoning_gym:nonsense")
