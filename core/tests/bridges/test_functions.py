"""Rewards as functions of verl, OpenRLHF and verifiers, called as those call them. Their own code: tests/bridges."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from plaudit import Verdict, verifier
from plaudit.bridges import openrlhf, verifiers, verl
from plaudit.bridges.standalone import Abstained


@verifier
def same(completion, reference, level=None):
    if completion == "?":
        return Verdict.abstain("cannot say")
    return Verdict(float(completion == str(reference)), extracted=completion, columns={"level": level})


@verifier
def broken(completion, reference):
    raise RuntimeError("no judge today")


def by_verl(solution, truth="4", extra=None, **settings):
    return asyncio.run(verl.compute_score("data", solution, truth, extra, reward=same, **settings))


def test_verl_gets_the_same_keys_for_every_row():
    right, wrong, unsure = by_verl("4"), by_verl("5"), by_verl("?", abstain_score=-1.0)
    assert right.keys() == wrong.keys() == unsure.keys()
    assert [one["score"] for one in (right, wrong, unsure)] == [1.0, 0.0, -1.0]
    assert [one["scored"] for one in (right, wrong, unsure)] == [1.0, 1.0, 0.0]


def test_extra_info_reaches_the_reward_as_columns():
    seen = {}

    @verifier
    def columns(completion, reference, level, data_source):
        seen.update(level=level, data_source=data_source)
        return 1.0

    asyncio.run(verl.compute_score("gsm", "x", "y", {"level": 3}, reward=columns))
    assert seen == {"level": 3, "data_source": "gsm"}


@pytest.mark.parametrize("reward", [same, broken])
def test_no_score_is_never_silently_zero(reward):
    with pytest.raises(Abstained, match="abstain_score"):
        asyncio.run(verl.compute_score("data", "?", "4", reward=reward))
    with pytest.raises(Abstained):
        openrlhf.make_reward_func(reward)(["p?"], ["p"], ["4"])


def test_openrlhf_scores_what_follows_the_prompt():
    function = openrlhf.make_reward_func(same, abstain_score=0.5)
    found = function(queries=["2+2=4", "2+2=5", "2+2=?"], prompts=["2+2="] * 3, labels=["4"] * 3)
    assert found["rewards"].tolist() == found["scores"].tolist() == [1.0, 0.0, 0.5]
    assert found["extra_logs"]["scored"].tolist() == [1.0, 1.0, 0.0]


def ask_verifiers(function, reply):
    task = SimpleNamespace(model_dump=lambda: {"prompt": "2+2=", "answer": "4", "idx": 0})
    return asyncio.run(function(task=task, trace=SimpleNamespace(last_reply=reply)))


def test_a_verifiers_reward_reads_task_and_trace():
    function = verifiers.reward_function(same)
    assert [ask_verifiers(function, reply) for reply in ("4", "5", "?")] == [1.0, 0.0, {}]
    assert ask_verifiers(verifiers.reward_function(same, abstain_score=0.0), "?") == 0.0
