"""What of verifiers' bridge does not need verifiers: a stand-in has its names. The real one: tests/bridges."""

from __future__ import annotations

import asyncio
import functools
import sys
import types
from importlib import metadata

import pytest
from plaudit import UsageError, load_environment
from plaudit.bridges.named import frozen, thawed
from plaudit.bridges.verifiers_in.strict import parts_of, scores_groups, strict
from plaudit.plugins.loading import load_plugin


class Rubric:
    """The names of verifiers 0.1.14's that are used; it takes a failure as 0."""

    def __init__(self, funcs=(), weights=()):
        self.funcs, self.weights = list(funcs), list(weights)

    @property
    def has_group_rewards(self):
        return any(func.__name__.startswith("all_") for func in self.funcs)

    def score_objects(self, state):
        return state

    def group_score_objects(self, states):
        return {"completions": [state["completion"] for state in states]}

    async def _call_individual_reward_func(self, func, state):
        try:
            return float(func(**state))
        except Exception:
            return 0.0

    async def _call_group_reward_func(self, func, states):
        return [0.0] * len(states)

    async def score_rollout(self, state):
        found = [await self._call_individual_reward_func(func=func, state=state) for func in self.funcs]
        return sum(weight * one for weight, one in zip(self.weights, found, strict=True))

    async def score_group(self, states):
        return [await self._call_group_reward_func(func=func, states=states) for func in self.funcs]


@pytest.fixture
def verifiers(monkeypatch):
    module = types.ModuleType("verifiers")
    module.Rubric = Rubric
    monkeypatch.setitem(sys.modules, "verifiers", module)


def right(completion):
    return completion == "4"


def raises(completion):
    raise RuntimeError("no judge")


def word(completion):
    return "good"


def infinite(completion):
    return float("inf")


async def later(completion):
    return 0.5


def all_but_one(completions):
    return [1.0] * (len(completions) - 1)


def all_half(completions):
    return [0.5] * len(completions)


STATE = {"completion": "4"}


@pytest.mark.parametrize(
    ("funcs", "weights", "score"),
    [
        ([right, later], [1.0, 2.0], 2.0), ([right, raises], [1.0, 0.0], 1.0), ([raises], [1.0], "no judge"),
        ([word], [1.0], "word gave 'good'; expected a finite number"), ([infinite], [1.0], "infinite gave inf"),
    ],
)  # fmt: skip
def test_a_failure_that_weighs_is_raised(verifiers, funcs, weights, score):
    rubric = Rubric(funcs, weights)
    strict(rubric)
    strict(rubric)  # again for another environment that shares it
    if isinstance(score, str):
        with pytest.raises(Exception, match=score):
            asyncio.run(rubric.score_rollout(STATE))
    else:
        assert asyncio.run(rubric.score_rollout(STATE)) == score


def test_a_group_gets_as_many_numbers_as_it_has_rollouts(verifiers):
    rubric = Rubric([all_half], [1.0])
    strict(rubric)
    assert asyncio.run(rubric.score_group([STATE] * 2)) == [[0.5, 0.5]]
    short = Rubric([all_but_one], [1.0])
    strict(short)
    with pytest.raises(Exception, match=r"all_but_one gave \[1.0\]; expected a list of 2 numbers"):
        asyncio.run(short.score_group([STATE] * 2))


def test_rubrics_in_rubrics_are_found(verifiers):
    alone, grouped = Rubric([right], [1.0]), Rubric([all_half], [1.0])
    together = types.SimpleNamespace(rubrics=[alone, types.SimpleNamespace(rubrics=[grouped])])
    routed = types.SimpleNamespace(env_map={"a": types.SimpleNamespace(rubric=together)})
    assert parts_of(routed) == [alone, grouped]
    assert (scores_groups(routed), scores_groups(alone)) == (True, False)


@pytest.mark.parametrize(
    ("rubric", "says"),
    [(Rubric([right], [0.0]), "no function with a weight"), (types.SimpleNamespace(), "_call_individual_reward_func")],
)
def test_a_rubric_that_cannot_score_is_refused(verifiers, rubric, says):
    with pytest.raises(UsageError, match=says):
        strict(rubric)


@pytest.mark.parametrize("kind", ["dataset", "environment"])
def test_the_package_that_is_missing_is_named(kind, monkeypatch):
    def version(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    load = load_environment if kind == "environment" else functools.partial(load_plugin, "dataset")
    with pytest.raises(UsageError, match="'gsm8k' needs verifiers: pip install verifiers"):
        load("verifiers", options={"environment": "gsm8k"})()


@pytest.mark.parametrize(
    ("more", "says"), [({"limit": 0}, "limit = 0; expected at least 1"), ({"options": [1]}, "expected Mapping")]
)
def test_options_that_cannot_be_are_named(more, says):
    with pytest.raises(UsageError, match=says):
        load_plugin("dataset", "verifiers", options={"environment": "gsm8k", **more})()


@pytest.mark.parametrize("value", [{"a": [1, {"b": None}], "c": "d"}, [], {}, 1.5, True])
def test_options_are_kept_as_they_were(value):
    assert thawed(frozen(value)) == value
    assert type(thawed(frozen(value))) is type(value)


def test_true_is_not_one():
    assert frozen({"a": 1}) != frozen({"a": True})
