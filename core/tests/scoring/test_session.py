"""Sessions: what rewards are called with, when they start, and that order never matters."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit import ContractError, UsageError, Verdict, reward, verifier
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


@pytest.mark.parametrize(("granularity", "sizes"), [("rollout", [1] * 6), ("group", [3, 3]), ("batch", [6])])
@pytest.mark.parametrize("is_async", [False, True])
def test_granularity_decides_the_calls(granularity, sizes, is_async, score):
    seen = []

    @reward(granularity=granularity)
    def plain(completions):
        seen.append(completions)
        return [float(c) for c in completions]

    @reward(granularity=granularity)
    async def awaited(completions):
        return plain(completions)

    table = score(awaited if is_async else plain, list("012345"), num_generations=3)
    assert sorted(map(len, seen)) == sorted(sizes)
    assert all("".join(call) in "012345" for call in seen)
    assert [row[0] for row in table.scores] == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_each_granularity_starts_as_soon_as_it_can():
    started: dict[str, threading.Event] = {name: threading.Event() for name in ("rollout", "group", "batch")}

    def of(granularity):
        @reward(granularity=granularity)
        def run(completions):
            started[granularity].set()
            return [1.0] * len(completions)

        return run

    rows = [Row("p") for _ in range(4)]
    specs = reward_specs([of("rollout"), of("group"), of("batch")])
    with Scorer(specs) as scorer, scorer.open(rows, num_generations=2) as session:
        session.submit(Rollout(3, rows[3], "x"))
        assert started["rollout"].wait(5)
        assert not started["group"].is_set()
        session.submit(Rollout(2, rows[2], "x"))
        assert started["group"].wait(5)
        assert not started["batch"].is_set()
        session.submit(Rollout(0, rows[0], "x"))
        session.submit(Rollout(1, rows[1], "x"))
        assert session.result().scores == ((1.0, 1.0, 1.0),) * 4


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(8)), st.integers(1, 4))
def test_the_order_of_arrival_never_matters(order, group_size):
    @reward(granularity="group")
    def relative(completions, log_metric):
        log_metric("size", len(completions))
        lengths = [len(c) for c in completions]
        return [(length - min(lengths)) / 7 for length in lengths]

    @verifier
    def judge(completion, reference, log=None):
        return Verdict(len(completion) / 3, extracted=completion[:1], metrics={"third": len(completion) / 3})

    completions = ["a" * (i * i % 7) for i in range(8)]
    rows = [Row("p", {"answer": "r"}) for _ in range(8)]

    def table(arrival):
        with (
            Scorer(reward_specs([relative, judge])) as scorer,
            scorer.open(rows, num_generations=group_size) as session,
        ):
            for i in arrival:
                session.submit(Rollout(i, rows[i], completions[i]))
            return session.result()

    one, other = table(range(8)), table(order)
    assert (one.scores, one.metrics, one.columns) == (other.scores, other.metrics, other.columns)


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


def test_submitting_wrongly():
    row = Row("p")
    with Scorer(reward_specs(lambda completions: [1.0] * len(completions))) as scorer:
        session = scorer.open([row, row], num_generations=2)
        session.submit(Rollout(0, row, "x"))
        for index in (0, 2, -1):
            with pytest.raises(ContractError, match=f"rollout {index} of 2"):
                session.submit(Rollout(index, row, "x"))
        with pytest.raises(ContractError, match="1 of 2 rollouts were never submitted"):
            session.result()
        session.cancel()
    with pytest.raises(UsageError, match="closed"):
        scorer.open([row], num_generations=1)


def test_leaving_a_session_early_stops_its_work(hostile):
    row = Row("p", {"answer": "x"})

    @reward(granularity="rollout")
    async def endless(completions):
        await asyncio.sleep(3600)

    with Scorer(reward_specs([endless, hostile("judge")])) as scorer:
        with scorer.open([row], num_generations=1) as session:
            session.submit(Rollout(0, row, "hang"))
        with pytest.raises(ContractError, match="cancelled"):
            session.result()


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


def test_a_scorer_that_is_forgotten_ends_its_workers(hostile):
    """No close, no with: the fixture proves that nothing is left."""
    row = Row("p", {"answer": "x"})
    scorer = Scorer(reward_specs([hostile("judge"), lambda completions: [1.0]]))
    session = scorer.open([row], num_generations=1)
    session.submit(Rollout(0, row, "x"))
    assert session.result().scores == ((1.0, 1.0),)
    del scorer, session
    gc.collect()


def test_a_program_that_never_closes_ends(hostile, tmp_path):
    """With a call that hangs on a thread and one in a worker, the interpreter still ends, and so does the worker."""
    code = (
        "import time\nfrom plaudit import reward\nfrom plaudit.scoring.scorer import Scorer\n"
        "from plaudit.scoring.spec import reward_specs\nfrom plaudit.types import Rollout, Row\n"
        "hang = reward(granularity='rollout')(lambda completions: time.sleep(600))\n"
        f"scorer = Scorer(reward_specs([hang, {hostile('pid')!r}]))\nrow = Row('p', {{'answer': 'x'}})\n"
        "session = scorer.open([row], num_generations=1)\nsession.submit(Rollout(0, row, 'x'))\ntime.sleep(1)\n"
    )
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert time.monotonic() - started < 30


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_that_exits_leaves_the_parents_workers_alone(hostile):
    row = Row("p", {"answer": "x"})
    with Scorer(reward_specs(hostile("pid")), processes=1) as scorer:

        def worker() -> str:
            session = scorer.open([row], num_generations=1)
            session.submit(Rollout(0, row, "x"))
            return session.result().columns["pid/extracted"][0]

        before = worker()
        child = os.fork()
        if child == 0:
            scorer._end()
            os._exit(0)
        os.waitpid(child, 0)
        assert worker() == before
