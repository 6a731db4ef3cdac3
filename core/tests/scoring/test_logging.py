"""What rewards log: keyed by rollout, namespaced, never stale, never shifted; and the runtime's own metrics."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from plaudit import Verdict, reward
from plaudit.scoring.errors import LengthError, LogError
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import reward_specs
from plaudit.scoring.stats import quantile
from plaudit.scoring.table import namespaced
from plaudit.types import Rollout, Row

pytestmark = pytest.mark.usefixtures("nothing_left")


def logs(*pairs, metrics=()):
    """A reward that logs these columns (functions of the completion) and metrics."""

    def run(completions, log_extra, log_metric):
        for name, value in pairs:
            log_extra(name, [value(c) for c in completions])
        for name, value in metrics:
            log_metric(name, value)
        return [1.0] * len(completions)

    return run


def test_columns_by_rollout(score):
    @reward(granularity="rollout")
    def sometimes(completions, log_extra):
        time.sleep(0.02 * (5 - int(completions[0])))
        if int(completions[0]) % 2:
            log_extra("odd", [completions[0]])
        return [1.0]

    assert score(sometimes, list("01234")).columns["odd"] == (None, "1", None, "3", None)


def test_one_column_of_two_rewards_is_namespaced(score):
    table = score([logs(("c", str.upper)), logs(("c", str.lower), ("d", len))], ["aB"])
    assert table.columns == {
        f"{table.names[0]}/c": ("AB",), f"{table.names[1]}/c": ("ab",), "d": (2,),
    }  # fmt: skip


def test_a_namespaced_column_keeps_its_name():
    """A column that collided once is not renamed back in a step where only one reward logs it."""

    @reward
    def one(completions, log_extra):
        log_extra("c", [1])
        return [1.0]

    @reward
    def two(completions, log_extra):
        if completions[0] == "both":
            log_extra("c", [2])
        return [1.0]

    row = Row("p")
    with Scorer(reward_specs([one, two])) as scorer:
        names = []
        for completion in ("both", "one"):
            session = scorer.open([row], num_generations=1)
            session.submit(Rollout(0, row, completion))
            names.append(set(session.result().columns))
    assert names == [{"one/c", "two/c"}, {"one/c"}]
    assert namespaced({("one", "c"): (1,)}) == {"c": (1,)}


def test_one_reward_that_logs_a_column_twice_loses_nothing(score):
    table = score(logs(("c", str.upper), ("c", str.lower)), ["aB"])
    assert table.columns == {"c": ("AB",), "c_2": ("ab",)}


@pytest.mark.parametrize("values", [["x"], ["x"] * 5, []])
def test_a_short_list_is_an_error_naming_the_reward(values, score):
    def short(completions, log_extra):
        log_extra("c", values)
        return [1.0] * len(completions)

    with pytest.raises(LengthError, match=r"'short' logged \d values in column 'c' for 4 completions"):
        score(short, list("abcd"))


@pytest.mark.parametrize("column", ["prompt", "completion", "advantage", "step", "reward", "f"])
def test_reserved_columns_are_refused(column, score):
    def f(completions, log_extra):
        log_extra(column, completions)
        return [1.0] * len(completions)

    with pytest.raises(LogError, match=f"'f' logged the column '{column}'"):
        score(f, ["a"])


def test_nothing_is_stale():
    """A reward that logs only in the first batch leaves nothing in the second; a late or failed call neither."""
    release = threading.Event()

    @reward(granularity="rollout", timeout_s=0.3)
    def first(completions, log_extra, log_metric):
        if completions[0] in ("log", "fail"):
            log_extra("c", [completions[0]])
            log_metric("m", 1)
        if completions[0] == "fail":
            raise ValueError
        if completions[0] == "late":
            release.wait(10)
            log_extra("c", ["late"])
        return [1.0]

    row = Row("p")
    tables = []
    with Scorer(reward_specs(first), max_unscored_share=None) as scorer:
        for completions in (["log", "fail", "late"], ["x", "y", "z"]):
            session = scorer.open([row] * 3, num_generations=3)
            for i, completion in enumerate(completions):
                session.submit(Rollout(i, row, completion))
            tables.append(session.result())
            release.set()
    assert tables[0].columns["c"] == ("log", None, None)
    assert tables[0].metrics == {"m": 1.0}
    assert tables[1].columns == {}
    assert tables[1].metrics == {}


def test_metrics_are_means_and_keep_rewards_apart(score):
    one = logs(metrics=[("m", 1), ("m", 2), ("only", 5)])
    two = logs(metrics=[("m", 10), ("nan", float("nan"))])
    table = score([one, two], ["a", "b"])
    assert table.metrics == {f"{table.names[0]}/m": 1.5, f"{table.names[1]}/m": 10.0, "only": 5.0}
    assert table.metric_sums["only"] == (5.0, 1)
    with pytest.raises(LogError, match="takes a number"):
        score(logs(metrics=[("m", "many")]), ["a"])


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ([1, 0.5], [1.0, 0.5]),
        ([True, False], [1.0, 0.0]),
        ((1.0, None), [1.0, None]),
        (np.array([1.0, np.nan], dtype=np.float32), [1.0, None]),
        ([np.float64(0.5), np.int64(2)], [0.5, 2.0]),
        ([Verdict(0.5), Verdict.abstain("why")], [0.5, None]),
        ([{"score": 1.0, "acc": 2.0, "note": "n"}, {"reward": 0.0}], [1.0, 0.0]),
        ((x for x in (1.0, 2.0)), [1.0, 2.0]),
        ([{"acc": 1.0}, 1.0], [None, 1.0]),
        ([[1.0], 1.0], [None, 1.0]),
    ],
)
def test_every_form_of_return_value_becomes_one(returned, expected, score):
    table = score(lambda completions: returned, ["a", "b"])
    assert [row[0] for row in table.scores] == expected


def test_entries_of_a_mapping_become_metrics_and_columns(score):
    def dicts(completions):
        return [{"score": 1.0, "acc": 2.0, "note": "n", "extracted": 137}, {"score": 0.0, "acc": 4.0}]

    table = score([dicts, lambda completions: [0.5, 0.5]], ["a", "b"])
    assert table.scores == ((1.0, 0.5), (0.0, 0.5))
    assert table.metrics == {"dicts/acc": 3.0}
    assert table.columns["dicts/note"] == ("n", None)
    assert table.columns["dicts/extracted"] == ("137", None)


def test_runtime_metrics(score):
    @reward(granularity="rollout")
    async def waits(completions):
        await asyncio.sleep(0.05 * int(completions[0]))
        return [1.0]

    table = score(waits, list("1234"))
    found = {name.removeprefix("scoring/waits/"): value for name, value in table.runtime.items()}
    assert 0.1 <= found["latency_p50_s"] <= found["latency_p95_s"] <= found["latency_max_s"] < 5
    assert found["latency_max_s"] >= 0.2
    assert found["after_generation_s"] >= 0.19
    assert found["queue_wait_max_s"] >= found["queue_wait_mean_s"] >= 0
    assert found["calls"] == 4
    assert table.waited_on[0] == "waits"
    assert 0.15 < table.waited_on[1] < 5
    assert table.runtime["scoring/wait_s"] >= 0.15


def test_a_long_wait_is_said(score, caplog):
    caplog.set_level("INFO", "plaudit.scoring")

    async def slow(completions):
        await asyncio.sleep(1.1)
        return [1.0] * len(completions)

    score(slow, ["a"])
    assert "waited on 'slow' for 1.1 s" in caplog.text


@pytest.mark.parametrize("q", [0, 0.5, 0.95, 1])
def test_quantiles_are_numpys(q):
    values = sorted([0.3, 0.1, 4.0, 2.5, 2.5, 0.7])
    assert quantile(values, q) == pytest.approx(float(np.quantile(values, q)))


def test_no_signal_and_constant_scores_are_said(caplog):
    def constant(completions):
        return [0.0] * len(completions)

    row = Row("p")
    with Scorer(reward_specs(constant)) as scorer:
        for step in range(50):
            session = scorer.open([row] * 4, num_generations=2, step=step)
            for i in range(4):
                session.submit(Rollout(i, row, str(i)))
            session.result()
    assert caplog.text.count("for every rollout of the last 20 steps") == 1
    assert caplog.text.count("no signal: for 50 steps") == 1


def test_abstentions_are_said_with_their_reason(score, caplog):
    score(lambda completions: [Verdict.abstain("the gold cannot be parsed"), 1.0], ["a", "b"])
    assert "has given no score 1 times so far; e.g. the gold cannot be parsed" in caplog.text
