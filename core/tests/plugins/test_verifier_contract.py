"""What a verifier may return, what it sees of a row, and what reaches the log."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import numpy as np
import pytest
import torch
from plaudit import ContractError, UsageError, Verdict, load_reward, load_verifier


def lengths(completions, **columns):
    return [float(len(c)) for c in completions]


def exact(completion, reference):
    return completion == reference


VERDICTS = [
    (True, Verdict(1.0)),
    (0, Verdict(0.0)),
    (0.25, Verdict(0.25)),
    (None, Verdict(None)),
    (float("nan"), Verdict(None)),
    (np.float64(0.5), Verdict(0.5)),
    (torch.tensor(0.5), Verdict(0.5)),
    (Verdict(1, "ok"), Verdict(1.0, "ok")),
    (Verdict(np.float32(0.5), "ok", metrics={"a": 1.0}), Verdict(0.5, "ok", metrics={"a": 1.0})),
    (Verdict(float("nan"), "odd"), Verdict(None, "odd")),
    (Verdict.abstain("unsure"), Verdict(None, "unsure")),
]


@pytest.mark.parametrize(("returned", "verdict"), VERDICTS)
def test_a_verifier_always_gives_a_verdict(returned, verdict) -> None:
    async def later(completion, reference):
        return returned

    got = load_verifier(lambda completion, reference: returned)("c", "r")
    assert got == verdict
    assert got.score is None or type(got.score) is float
    assert asyncio.run(load_verifier(later)("c", "r")) == verdict


@pytest.mark.parametrize("returned", ["yes", [1.0], Verdict("1"), object(), {"score": 1.0}])
def test_an_odd_verdict_names_the_verifier(returned) -> None:
    def mine(completion, reference):
        return returned

    with pytest.raises(ContractError, match="'mine' returned the score"):
        load_verifier(mine)("c", "r")


def test_a_verifier_sees_text_its_reference_and_the_columns_it_names() -> None:
    got = []

    def nosy(completion, reference, level, prompt, completion_ids, absent=None, **others):
        got.append((completion, reference, level, prompt, completion_ids, absent, others))
        return 1.0

    chat = [
        {"role": "assistant", "content": "first"},
        {"role": "tool", "content": "t"},
        {"role": "assistant", "content": "last"},
    ]
    load_reward(nosy)(
        prompts=["p"], completions=[chat], completion_ids=[[5]], gold=["g"], level=[2], extra=["e"], trainer_state=None
    )
    assert got == [("last", "g", 2, "p", [5], None, {"gold": "g", "extra": "e"})]


@pytest.mark.parametrize(
    ("column", "columns", "seen"),
    [
        (None, {"reference": 1, "answer": 2, "solution": 3, "gold": 4}, 1),
        (None, {"answer": 2, "solution": 3, "gold": 4}, 2),
        (None, {"gold": 4, "solution": 3}, 3),
        (None, {"gold": 4}, 4),
        (None, {"reference": None, "answer": 2}, 2),
        ("truth", {"truth": 5, "reference": 1}, 5),
        (None, {"reference": 0}, 0),
        (None, {"reference": ""}, ""),
    ],
)
def test_where_the_reference_comes_from(column, columns, seen) -> None:
    loaded = load_reward(lambda completion, reference: Verdict(1.0, extracted=repr(reference)), reference_column=column)
    assert loaded.judge("c", columns).extracted == repr(seen)


def test_a_row_without_reference_abstains_and_says_so() -> None:
    loaded = load_reward(exact)
    assert loaded.judge("c", {"answer": None}) == Verdict(None, "no reference: column 'answer' is empty in this row")
    assert loaded(completions=["a", "b"], answer=["a", None]) == [1.0, None]
    assert load_verifier(exact)("a").score is None
    without = load_reward(lambda completion: bool(completion))
    assert without(completions=["a", ""]) == [1.0, 0.0]


def test_only_a_verifier_judges() -> None:
    with pytest.raises(UsageError, match="'lengths' is a reward function"):
        load_reward(lengths).judge("a", {})


def test_verdicts_reach_the_trainers_log() -> None:
    extra, metrics = {}, {}

    def telling(completion, reference):
        if completion == "a":
            return Verdict(1.0, extracted="A", metrics={"tries": 2.0, "only": 5.0}, columns={"note": "n"})
        return Verdict(None, metrics={"tries": 4.0})

    scores = load_reward(telling)(
        completions=["a", "b"], answer=["a", "b"], log_extra=extra.__setitem__, log_metric=metrics.__setitem__
    )
    assert scores == [1.0, None]
    assert extra == {"telling/extracted": ["A", ""], "note": ["n", None]}
    assert metrics == {"tries": 3.0, "only": 5.0}


def test_async_verdicts_are_judged_together() -> None:
    running = 0
    most = 0

    async def counting(completion, reference):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return Fraction(1, 2) == reference

    loaded = load_reward(counting)
    assert asyncio.run(loaded(completions=["a"] * 5, answer=[Fraction(1, 2)] * 5)) == [1.0] * 5
    assert most == 5
