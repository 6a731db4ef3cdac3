"""Sessions: what rewards are called with, when they start, and that order never matters."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace

import pytest
from plaudit import UsageError, Verdict, reward, verifier
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec, environment_spec, reward_specs
from plaudit.types import Rollout, Row

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_four_slow_rewards_cost_one(score):
    """Sync and async of 0.4 s each, on 8 rollouts: concurrent, so far below their sum of 1.6 s."""

    def sync_one(completions):
        time.sleep(0.4)
        return [1.0] * len(completions)

    def sync_two(completions):
        time.sleep(0.4)
        return [2.0] * len(completions)

    async def async_one(completions):
        await asyncio.sleep(0.4)
        return [3.0] * len(completions)

    async def async_two(completions):
        await asyncio.sleep(0.4)
        return [4.0] * len(completions)

    started = time.monotonic()
    table = score([sync_one, sync_two, async_one, async_two], ["x"] * 8)
    assert time.monotonic() - started < 1.2
    assert table.scores == ((1.0, 2.0, 3.0, 4.0),) * 8


def test_the_arguments_are_trls(score):
    seen = {}

    def everything(prompts, completions, completion_ids, trainer_state, log_extra, log_metric, **columns):
        seen.update(
            columns, prompts=prompts, completions=completions, ids=completion_ids, step=trainer_state.global_step
        )
        seen["functions"] = callable(log_extra) and callable(log_metric)
        return [0.0] * len(completions)

    columns = {"answer": ["a", "b"], "meta": [{"k": 1}, None], "completion": ["gold", "gold"]}
    score(everything, ["x", "y"], columns=columns, trainer_state=SimpleNamespace(global_step=7, log_history=[]))
    assert seen == {
        "answer": ["a", "b"], "meta": [{"k": 1}, None], "prompts": ["prompt 0", "prompt 1"], "completions": ["x", "y"],
        "ids": [[0, 1], [1, 2]], "step": 7, "functions": True,
    }  # fmt: skip


def test_only_what_the_signature_takes(score):
    @reward
    def narrow(completions, answer):
        return [float(a) for a in answer]

    assert score(narrow, ["x", "y"], columns={"answer": [1, 2], "other": [3, 4]}).scores == ((1.0,), (2.0,))


def test_rows_with_different_columns_are_filled_with_none(score):
    def looks(completions, one, two):
        return [float(a is None) + 2 * float(b is None) for a, b in zip(one, two, strict=True)]

    rows = [Row("p", {"one": 1}), Row("p", {"two": 2})]
    with Scorer(reward_specs(looks)) as scorer, scorer.open(rows, num_generations=1) as session:
        for i, row in enumerate(rows):
            session.submit(Rollout(i, row, "x"))
        assert session.result().scores == ((2.0,), (1.0,))


@pytest.mark.parametrize(
    ("component", "columns", "message"),
    [
        (lambda completions, answer: [], {"other": ["x"]}, "'answer'"),
        (verifier(lambda completion, reference: 1.0), {"other": ["x"]}, "needs a reference"),
        (lambda completions: [], {"prompts": ["x"]}, "'prompts' would hide"),
        (lambda completions: [], {"log_extra": ["x"]}, "'log_extra' would hide"),
    ],
)
def test_wrong_columns_are_refused_before_anything_runs(component, columns, message, score):
    with pytest.raises(UsageError, match=message):
        score(component, ["x"], columns=columns)


def test_a_verifier_gives_scores_reasons_extractions_metrics_and_columns(score):
    @verifier
    def judge(completion, reference, unit):
        if completion == "?":
            return Verdict.abstain("unreadable")
        return Verdict(
            float(completion == reference), "compared", extracted=completion, metrics={"n": 2.0}, columns={"u": unit}
        )

    table = score(judge, ["1", "2", "?"], columns={"answer": ["1", "1", "1"], "unit": ["m", "s", "kg"]})
    assert [row[0] for row in table.scores] == [1.0, 0.0, None]
    assert table.columns["judge/extracted"] == ("1", "2", None)
    assert table.columns["judge/reason"] == ("compared", "compared", "unreadable")
    assert table.columns["judge/u"] == ("m", "s", None)
    assert table.metrics == {"judge/n": 2.0}
    assert table.runtime["scoring/judge/abstentions"] == 1


def test_equal_deterministic_work_runs_once(score):
    calls = []

    @verifier
    def judge(completion, reference):
        calls.append((completion, reference))
        time.sleep(0.02)
        return float(completion == reference)

    table = score(judge, ["a", "a", "b", "a"], columns={"answer": ["a", "a", "a", "b"]})
    assert [row[0] for row in table.scores] == [1.0, 1.0, 0.0, 0.0]
    assert sorted(calls) == [("a", "a"), ("a", "b"), ("b", "a")]
    assert table.runtime["scoring/judge/shared"] == 1


@pytest.mark.parametrize("answers", [[1, True], [1, 1.0], ["1", 1]])
def test_values_that_only_look_equal_are_different_work(answers, score):
    @verifier
    def judge(completion, reference):
        return float({bool: 0, int: 1, float: 2, str: 3}[type(reference)])

    scores = score(judge, ["a", "a"], columns={"answer": answers}).scores
    assert scores[0] != scores[1]


def test_two_sessions_at_once():
    """The next batch can be submitted while the last rewards of this one arrive."""
    release = threading.Event()

    @reward(granularity="rollout")
    def slow(completions):
        if completions[0] == "first":
            release.wait(10)
        return [float(len(completions[0]))]

    row = Row("p")
    with Scorer(reward_specs(slow)) as scorer:
        first, second = scorer.open([row], num_generations=1), scorer.open([row], num_generations=1, step=1)
        first.submit(Rollout(0, row, "first"))
        second.submit(Rollout(0, row, "next"))
        assert second.result().scores == ((4.0,),)
        assert not first.done
        release.set()
        assert first.result().scores == ((5.0,),)


def test_environment_rewards_are_concurrent_and_only_for_their_class(score):
    class Slow:
        async def get_reward(self):
            await asyncio.sleep(0.3)
            return 0.5

    class Other:
        def get_reward(self):
            return None

    specs = [environment_spec(Slow), environment_spec(Other)]
    environments = [Slow() if i % 2 else Other() for i in range(8)]
    started = time.monotonic()
    table = score(specs, ["x"] * 8, environments=environments)
    assert time.monotonic() - started < 1.0
    assert table.names == ("Slow", "Other")
    assert table.scores == ((None, None), (0.5, None)) * 4


def test_rewards_see_the_live_environments(score):
    class Env:
        value = 3.0

    def looks(completions, environments):
        return [environment.value for environment in environments]

    assert score(looks, ["x", "y"], environments=[Env(), Env()]).scores == ((3.0,), (3.0,))


def test_an_empty_batch(score):
    assert score(lambda completions: [], []).scores == ()


def test_specs_are_made_of_anything_and_the_callers_list_is_left_alone():
    def f(completions):
        return [1.0] * len(completions)

    given = [f, f, RewardSpec(reward_specs(f)[0].reward, "f"), "plaudit.scoring.gates:passes"]
    copy = list(given)
    specs = reward_specs(given[:3])
    assert [spec.name for spec in specs] == ["f", "f_2", "f_3"]
    assert given == copy
    assert [spec.weight for spec in reward_specs([f, f], [0.5, 2])] == [0.5, 2]
    with pytest.raises(UsageError, match="3 reward weights for 2"):
        reward_specs([f, f], [1, 2, 3])
