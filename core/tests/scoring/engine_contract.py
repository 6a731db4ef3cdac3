"""The engine cases on what a reward returns: shapes, mappings, abstentions, infinities, unreadable references."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_cases import case
from plaudit import Verdict, reward, verifier
from plaudit.scoring.spec import reward_specs


@case("engine-shape-01")
def one_score_for_three(score, **_):
    def broadcast(completions):
        return [1.0]

    with pytest.raises(ValueError, match="'broadcast' returned 1 scores for 3 completions"):
        score(broadcast, ["a", "b", "c"])


@case("engine-shape-04")
def one_of_five_raises(score, **_):
    seen = []

    @reward(granularity="rollout")
    def grader(completions):
        seen.append(1.0)
        if completions[0] == "2":
            raise RuntimeError("after its score was appended")
        return [float(completions[0])]

    table = score(grader, list("01234"))
    assert [row[0] for row in table.scores] == [0.0, 1.0, None, 3.0, 4.0]
    assert [bool(cell) for cell in table.columns["grader/failure"]] == [False, False, True, False, False]


@case("engine-shape-05")
def floats_and_mappings(score, **_):
    def floats(completions):
        return [0.5, 1.0]

    def mappings(completions):
        return [{"score": 1.0, "extra": [1, 2, 3]}, {"score": 0.0}]

    table = score([floats, mappings], ["a", "b"])
    assert table.scores == ((0.5, 1.0), (1.0, 0.0))
    assert table.columns["mappings/extra"] == ([1, 2, 3], None)


@case("engine-shape-07")
def the_whole_extracted_answer(score, **_):
    @verifier
    def extracts(completion, reference):
        return Verdict(1.0, extracted="137")

    def logs(completions, log_extra):
        log_extra("answer_found", ["137"])
        return [1.0]

    table = score([extracts, logs], ["the answer is 137"])
    assert table.columns["extracts/extracted"] == ("137",)
    assert table.columns["answer_found"] == ("137",)


@case("engine-missing-01")
def an_abstention_is_left_out_of_the_sum(score, **_):
    import torch
    from plaudit.grpo.advantages import compute_advantages

    table = score([lambda completions: [None, 1.0, 0.0, 1.0], lambda completions: [1.0, 0.0, 1.0, 1.0]], list("abcd"))
    assert table.scores[0] == (None, 1.0)
    rows = [[float("nan") if s is None else s for s in row] for row in table.scores]
    found = compute_advantages(torch.tensor(rows), num_generations=4, weights=table.weights, scale="none")
    assert found.values.tolist() == pytest.approx([1.0 - 1.25, 1.0 - 1.25, 1.0 - 1.25, 2.0 - 1.25])


@case("engine-missing-04")
def infinity_is_an_error(score, **_):
    def infinite(completions):
        return [float("inf"), 1.0]

    table = score(infinite, ["a", "b"])
    assert table.scores == ((None,), (1.0,))
    assert table.failures[0].kind == "infinite"
    with pytest.raises(Exception, match=r"'infinite' failed on rollout 0.*returned inf"):
        score([replace(reward_specs(infinite)[0], on_error="raise")], ["a", "b"])


@case("engine-missing-05")
def an_unreadable_gold_warns(score, caplog, **_):
    @verifier
    def math_like(completion, reference):
        return (
            Verdict.abstain("the gold cannot be parsed") if reference == "\\frac{" else float(completion == reference)
        )

    table = score(math_like, ["1", "1", "2"], columns={"answer": ["1", "\\frac{", "1"]})
    assert [row[0] for row in table.scores] == [1.0, None, 0.0]
    assert "'math_like' has given no score 1 times so far; e.g. the gold cannot be parsed" in caplog.text
