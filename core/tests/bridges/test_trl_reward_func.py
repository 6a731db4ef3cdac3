"""Rewards as TRL's reward functions: called as TRL calls them."""

from __future__ import annotations

import asyncio
import pickle
import threading

import numpy
import pytest
from plaudit import UsageError, Verdict, reward, verifier
from plaudit.bridges.trl import ExtraColumns, group_size, reward_func
from plaudit.scoring.spec import RewardSpec, reward_specs
from plaudit.types import Row


def ask(function, completions, **columns):
    prompts = columns.pop("prompts", ["p"] * len(completions))
    return asyncio.run(function(prompts=prompts, completions=completions, **columns))


@verifier
def same(completion, reference):
    if completion == "?":
        return Verdict.abstain("cannot say")
    return Verdict(float(completion == reference), extracted=completion, metrics={"right": completion == reference})


ALL_HERE = threading.Barrier(4, timeout=20)


def together(completions, **columns):
    """Scores only when three others are scoring as well."""
    ALL_HERE.wait()
    return [1.0] * len(completions)


def failing(completions, **columns):
    raise RuntimeError("broken")


def test_scores_are_those_of_the_reward():
    found = ask(reward_func(same), ["a", "b", "?"], answer=["a", "a", "a"])
    assert found == [1.0, 0.0, None]


def test_a_failed_reward_abstains():
    assert ask(reward_func(failing), ["a", "b"]) == [None, None]


def test_what_is_logged_reaches_trl():
    columns, metrics = {}, {}
    ask(reward_func(same), ["a", "b"], answer=["a", "a"], log_extra=columns.__setitem__, log_metric=metrics.__setitem__)
    assert columns["same/extracted"] == ["a", "b"]
    assert metrics == {"same/right": 0.5}


def test_several_wait_at_one_time():
    async def all_of(functions):
        calls = [function(prompts=["p"] * 2, completions=["a", "b"]) for function in functions]
        return await asyncio.gather(*calls)

    functions = [reward_func(together, name=f"reward{number}") for number in range(4)]
    assert asyncio.run(all_of(functions)) == [[1.0, 1.0]] * 4


@pytest.mark.parametrize(
    ("prompts", "answers", "size"),
    [
        ("aabb", "1111", 2),
        ("aaaa", "1111", 4),
        ("aaaa", "1122", 2),  # one prompt for all, as where an environment gives it
        ("ab", "11", 1),
        ("aab", "111", 1),
        ("aabc", "1111", 1),
        ("", "", 1),
    ],
)
def test_groups_are_read_from_the_rows(prompts, answers, size):
    assert group_size([Row(one, {"answer": answer}) for one, answer in zip(prompts, answers, strict=True)]) == size


def test_arrays_in_rows_tell_nothing_of_groups():
    assert group_size([Row(one, {"image": numpy.zeros(2)}) for one in "aabb"]) == 2


def test_it_pickles_as_its_name():
    function = pickle.loads(pickle.dumps(reward_func("format", name="shape")))
    assert function.__name__ == "shape"


def test_an_unknown_name_is_an_error():
    from plaudit.errors import PluginError

    with pytest.raises(PluginError, match="no reward"):
        reward_func("no_such_reward_here")


def said(content, **more):
    return [{"role": "assistant", "content": content, **more}]


CALL = [{"type": "function", "function": {"name": "look", "arguments": {}}}]


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        ("a", 1.0),
        (said("a"), 1.0),
        (said([{"type": "text", "text": "a"}]), 1.0),
        ([*said(None, tool_calls=CALL), {"role": "tool", "name": "look", "content": "b"}, *said("a")], 1.0),
        (said(None, tool_calls=CALL), 0.0),
        ([], 0.0),
        ("", 0.0),
    ],
)
def test_every_shape_of_completion(completion, score):
    assert ask(reward_func(same), [completion], answer=["a"]) == [score]


async def later(completions, **columns):
    await asyncio.sleep(0)
    return [None if text == "?" else float(len(text)) for text in completions]


@reward(granularity="group")
def different(completions, **columns):
    return [float(len(set(completions)))] * len(completions)


@reward(granularity="rollout", on_error="drop_group")
def fragile(completions, **columns):
    if completions == ["?"]:
        raise RuntimeError("broken")
    return [1.0]


def infinite(completions, **columns):
    return [float("inf") if text == "?" else 1.0 for text in completions]


@pytest.mark.parametrize(
    ("function", "policy", "scores"),
    [
        (later, {}, [2.0, 1.0, None, 1.0]),
        (different, {}, [2.0, 2.0, 2.0, 2.0]),
        (different, {"num_generations": 4}, [4.0] * 4),
        (fragile, {}, [1.0, 1.0, None, None]),
        (fragile, {"on_error": "abstain"}, [1.0, 1.0, None, 1.0]),
        (fragile, {"on_error": "zero"}, [1.0, 1.0, 0.0, 1.0]),
        (infinite, {}, [1.0, 1.0, None, 1.0]),
        (later, {"scale": 2.0, "clip": [0.0, 1.5]}, [3.0, 2.0, None, 2.0]),
        (later, {"when": {"kind": "x"}}, [2.0, None, None, 1.0]),
    ],
)
def test_policies(function, policy, scores):
    prompts, kinds = ["p", "p", "q", "q"], ["x", "y", "x", "x"]
    if "when" not in policy:
        kinds = ["x"] * 4
    assert ask(reward_func(function, **policy), ["aa", "b", "?", "c"], prompts=prompts, kind=kinds) == scores


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        ({"timeouts": 5}, "no 'timeouts'; did you mean 'timeout_s'"),
        ({"weight": 0.5}, "reward_weights"),
        ({"after": "format"}, "no other to wait for"),
        ({"on_error": "ignore"}, "on_error = 'ignore'"),
        ({"timeout_s": -1}, "timeout_s = -1"),
    ],
)
def test_a_wrong_policy_is_refused(policy, says):
    with pytest.raises(UsageError, match=says):
        reward_func(same, **policy)


def test_a_spec_keeps_what_it_says_and_takes_more():
    spec = RewardSpec(reward_specs([later])[0].reward, "later", scale=3.0)
    assert ask(reward_func(spec, clip=[0.0, 1.0], name="other"), ["aa"]) == [3.0]
    assert reward_func(spec, name="other").__name__ == "other"
    with pytest.raises(UsageError, match="has its reward already"):
        reward_func(spec, options={"a": 1})


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"answer": ["a"]}, "answer has 1 entries for 2 completions"),
        ({"answer": ["a", "b"], "level": 3}, "level is 3; expected a list"),
        ({"answer": ["a", "b"], "completion_ids": [[1]]}, "completion_ids has 1 entries"),
        ({"answer": ["a", "b"], "prompts": ["p"]}, "prompts has 1 entries"),
    ],
)
def test_columns_of_another_length_are_refused(columns, says):
    with pytest.raises(UsageError, match=says):
        ask(reward_func(same), ["a", "b"], **columns)


def test_columns_stay_with_their_rows():
    told = {}

    def log_extra(name, values):
        told.setdefault(name, []).extend(values)

    shown = ExtraColumns()
    shown.log({"a": [1, None]}, 2, log_extra)
    shown.log({"b": ["x", 2]}, 2, log_extra)
    shown.log({}, 1, log_extra)
    shown.log({"a": [True, "y"], "b": [3, None]}, 2, log_extra)
    assert told == {
        "a": [1.0, None, None, None, None, 1.0, None],
        "b": [None, None, "x", "2", None, "3", None],
        "a_text": [None, None, None, None, None, None, "y"],
    }
