"""What a reward is called with, and when: rollout, group, batch, whatever the order of arrival."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit import Verdict, reward, verifier
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import reward_specs
from plaudit.types import Rollout, Row

pytestmark = pytest.mark.usefixtures("nothing_left")


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
