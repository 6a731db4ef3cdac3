"""Rewards as functions of verl, OpenRLHF and verifiers, called as those call them. Their own code: tests/bridges."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
from types import SimpleNamespace

import pytest
from plaudit import UsageError, Verdict, reward, verifier
from plaudit.bridges import openrlhf, verifiers, verl
from plaudit.bridges.standalone import Abstained
from plaudit.scoring.spec import reward_specs


@verifier
def same(completion, reference, level=None):
    if completion == "?":
        return Verdict.abstain("cannot say")
    return Verdict(float(completion == str(reference)), extracted=completion, columns={"level": level})


@verifier
def broken(completion, reference):
    raise RuntimeError("no judge today")


def served(function):
    from plaudit.bridges.reward_servers import openrlhf_app
    from plaudit.scoring.web import WebLimits

    return openrlhf_app(reward_specs([function]), WebLimits(), abstain_score=None)


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


@pytest.mark.parametrize(
    ("query", "prompt", "completion"),
    [
        ("2+2=4", "2+2=", "4"),
        ("<s>2+2=4</s>", "2+2=", "4"),
        ("<|im_start|>user\n2+2=<|im_end|>\n4<|im_end|>\n", "<|im_start|>user\n2+2=<|im_end|>\n", "4"),
        ("<bos>2+2=4<end_of_turn><eos>", "2+2=", "4"),
        ("2+2=4<｜end▁of▁sentence｜>", "2+2=", "4"),
        ("2+2=4<|eot_id|> <|endoftext|><|endoftext|>", "2+2=", "4"),
        ("2+2=<think>a</think>4 > 3\n", "2+2=", "<think>a</think>4 > 3\n"),
        ("2+2=<|im_end|>4", "2+2=", "<|im_end|>4"),
        ("2+2=", "2+2=", ""),
        ("aa", "a", "a"),
        ("4</s>", "", "4"),
        ("4", "of another row", "4"),
    ],
)
def test_openrlhfs_texts_are_read_without_their_special_tokens(query, prompt, completion):
    assert openrlhf.completion_of(query, prompt) == completion


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((["a"], [], ["4"]), "queries, prompts, labels have 1, 0, 1 entries"),
        ((["a"], ["a"], None), "labels is None; expected a list"),
        (("ab", ["a"], ["4"]), "queries is 'ab'; expected a list"),
        (([3], ["a"], ["4"]), "queries holds 3; expected text"),
        ((["a"], [None], ["4"]), "prompts holds None; expected text"),
    ],
)
def test_openrlhf_is_told_what_is_wrong_with_a_call(given, says):
    with pytest.raises(UsageError, match=says):
        openrlhf.make_reward_func(same)(*given)


def test_several_completions_of_a_call_are_judged_at_one_time():
    together = threading.Barrier(3, timeout=20)

    @verifier(executor="thread")
    def waits(completion, reference):
        together.wait()
        return completion == reference

    found = openrlhf.make_reward_func(waits)(["a", "b", "c"], [""] * 3, ["a", "b", "x"])
    assert found["rewards"].tolist() == [1.0, 1.0, 0.0]


def test_verl_may_load_the_file_by_its_path():
    spec = importlib.util.spec_from_file_location("custom_module", verl.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert asyncio.run(module.exact("data", "4", "4"))["score"] == 1.0
    assert asyncio.run(module.compute_score("data", "5", "4", reward="exact"))["score"] == 0.0


def test_a_name_that_is_no_reward_is_said_as_python_says_it():
    with pytest.raises(AttributeError, match="no reward or verifier named 'exactt'; did you mean 'exact'"):
        verl.exactt  # noqa: B018


def test_a_reward_keeps_its_workers_from_call_to_call():
    before = threading.active_count()
    for number in range(20):
        asyncio.run(verl.compute_score("data", str(number), "4", reward=same))
    assert threading.active_count() <= before + 5


@verifier(executor="loop", timeout_s=0.05)
async def slow(completion, reference):
    await asyncio.sleep(30)


def test_what_is_asked_of_the_runtime_holds_everywhere():
    with pytest.raises(Abstained, match=r"timeout_s = 0\.05"):
        asyncio.run(verl.score_function(slow)("data", "4", "4"))
    with pytest.raises(UsageError, match="no 'timeouts'; did you mean 'timeout_s'"):
        openrlhf.make_reward_func(same, timeouts=1)
    scaled = asyncio.run(verl.compute_score("data", "4", "4", reward=same, policy={"scale": 2.0}))
    assert scaled["score"] == asyncio.run(verl.score_function(same, scale=2.0)("data", "4", "4"))["score"] == 2.0


@reward(granularity="group")
def different(completions, **columns):
    return [float(len(set(completions)))] * len(completions)


@pytest.mark.parametrize("make", [openrlhf.make_reward_func, verl.score_function, served])
def test_a_reward_of_groups_is_refused_where_one_completion_is_asked_about(make):
    with pytest.raises(UsageError, match="compares the completions of a group"):
        make(different)


def ask_verifiers(function, reply):
    task = SimpleNamespace(model_dump=lambda: {"prompt": "2+2=", "answer": "4", "idx": 0})
    return asyncio.run(function(task=task, trace=SimpleNamespace(last_reply=reply)))


def test_a_verifiers_reward_reads_task_and_trace():
    function = verifiers.reward_function(same)
    assert [ask_verifiers(function, reply) for reply in ("4", "5", "?")] == [1.0, 0.0, {}]
    assert ask_verifiers(verifiers.reward_function(same, abstain_score=0.0), "?") == 0.0
