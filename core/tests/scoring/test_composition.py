"""Weights, schedules, gates, clip and scale, ranks, and the state of a checkpoint."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit import UsageError, reward
from plaudit.scoring.errors import RewardError, ScoringPaused
from plaudit.scoring.schedules import Adaptive, as_schedule
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import reward_specs
from plaudit.types import Rollout, Row

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (2, {0: 2.0, 9: 2.0}),
        ({"schedule": "constant", "value": 0.5}, {0: 0.5, 100: 0.5}),
        ({"schedule": "linear", "start": 1.0, "end": 0.0, "steps": 10}, {0: 1.0, 5: 0.5, 10: 0.0, 99: 0.0}),
        ({"schedule": "linear", "start": 0.0, "end": 4.0, "steps": 4, "begin": 10}, {0: 0, 10: 0, 11: 1, 20: 4}),
        ({"schedule": "cosine", "start": 1.0, "end": 0.0, "steps": 10},
         {0: 1.0, 5: 0.5, 10: 0.0, 2: (1 + math.cos(math.pi * 0.2)) / 2}),
        ({"schedule": "steps", "values": {"10": 0.5, 0: 1.0, 20: 0.0}}, {0: 1.0, 9: 1.0, 10: 0.5, 19: 0.5, 20: 0.0}),
        (lambda step: step / 2, {0: 0.0, 3: 1.5}),
    ],
)  # fmt: skip
def test_schedules(written, expected):
    schedule = as_schedule(written)
    assert {step: schedule(step) for step in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    "written",
    ["1.0", None, True, float("nan"), float("inf"), {"schedule": "exponential"}, {"start": 1},
     {"schedule": "linear", "from": 1}, {"schedule": "steps", "values": {}}],
)  # fmt: skip
def test_wrong_schedules(written):
    with pytest.raises(UsageError):
        as_schedule(written)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=30))
def test_the_adaptive_weight_is_the_skills(batches):
    """× 1.2 below a success rate of 0.3, × 0.9 above 0.8; a second derivation of the same rule."""
    adaptive, expected = Adaptive(), 1.0
    for successes, scored in batches:
        adaptive.update(successes, scored)
        if scored:
            expected *= 1.2 if successes / scored < 0.3 else 0.9 if successes / scored > 0.8 else 1
            expected = min(expected, 100.0)
    assert adaptive(0) == pytest.approx(expected)


def test_weights_follow_their_schedules_by_name(score):
    def f(completions):
        return [1.0] * len(completions)

    weights = [{"schedule": "linear", "start": 1.0, "end": 0.0, "steps": 4}, 3]
    assert score([f, f], ["x"], weights=weights, step=1).weights == (0.75, 3.0)


def test_an_adaptive_weight_learns_from_training_batches_and_is_saved():
    def f(completions):
        return [float(c) for c in completions]

    row = Row("p")
    specs = reward_specs(f, [{"schedule": "adaptive"}])
    with Scorer(specs) as scorer:

        def batch(scores, mode="train"):
            session = scorer.open([row] * len(scores), num_generations=len(scores), mode=mode)
            for i, one in enumerate(scores):
                session.submit(Rollout(i, row, one))
            return session.result().weights[0]

        assert batch("0000", "eval") == 1.0
        assert batch("0001") == 1.0
        assert batch("1111") == pytest.approx(1.2)
        assert batch("1100") == pytest.approx(1.08)
        assert scorer.weights(9) == (pytest.approx(1.08),)
        state = scorer.state_dict()
    with Scorer(reward_specs(f, [{"schedule": "adaptive"}])) as other:
        other.load_state_dict(state)
        assert other.weights(0) == (pytest.approx(1.08),)


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ({"task": "math"}, [True, False, False]),
        ({"task": ["math", "code"]}, [True, True, False]),
        ({"task": "math", "level": 2}, [False, False, False]),
        ({"level": 1}, [True, True, False]),
        ({}, [True, True, True]),
    ],
)
@pytest.mark.parametrize("granularity", ["rollout", "batch"])
def test_when(when, runs, granularity, score):
    seen = []

    def gated(completions):
        seen.extend(completions)
        return [1.0] * len(completions)

    spec = replace(reward_specs(gated)[0], when=when, granularity=granularity)
    columns = {"task": ["math", "code", None], "level": [1, 1, 3]}
    table = score([spec], ["a", "b", "c"], columns=columns)
    assert [row[0] for row in table.scores] == [1.0 if run else None for run in runs]
    assert sorted(seen) == [c for c, run in zip("abc", runs, strict=True) if run]
    assert not table.failures
    assert table.runtime["scoring/gated/abstentions"] == 0


@pytest.mark.parametrize(("after", "runs"), [("form", "bc"), ({"form": 0.5}, "bc"), ({"form": 1.0}, "c")])
@pytest.mark.parametrize("granularity", ["rollout", "group", "batch"])
def test_after_runs_only_where_another_passed(after, runs, granularity, score):
    calls = []

    @reward(granularity="rollout")
    def form(completions):
        return [{"a": 0.0, "b": 0.5, "c": 1.0}.get(completions[0])]

    def costly(completions):
        calls.extend(completions)
        return [2.0] * len(completions)

    specs = [replace(reward_specs(costly)[0], after=after, granularity=granularity), *reward_specs(form)]
    table = score(specs, ["a", "b", "c", "?"])
    assert sorted(calls) == list(runs)
    assert [row[0] for row in table.scores] == [2.0 if c in runs else None for c in "abc?"]


def test_after_an_error_nothing_runs(score):
    def broken(completions):
        raise RuntimeError("no")

    def next_one(completions):
        return [1.0] * len(completions)

    specs = reward_specs([broken, next_one])
    table = score([specs[0], replace(specs[1], after="broken")], ["a", "b"])
    assert table.scores == ((None, None),) * 2


def test_gates_that_cannot_work_are_refused():
    def f(completions):
        return [1.0]

    a, b = reward_specs([f, f])
    with pytest.raises(UsageError, match="no reward of that name"):
        Scorer([replace(a, after="g")])
    with pytest.raises(UsageError, match="waits for itself"):
        Scorer([replace(a, after="f_2"), replace(b, after="f")])
    with pytest.raises(UsageError, match="one reward"):
        Scorer([replace(a, after={"f": 1, "f_2": 1}), b])


def test_clip_then_scale(score):
    def f(completions):
        return [float(c) if c else None for c in completions]

    spec = replace(reward_specs(f)[0], clip=(-1.0, 1.0), scale=0.5)
    table = score([spec], ["-9", "0.5", "7", ""])
    assert [row[0] for row in table.scores] == [-0.5, 0.25, 0.5, None]


class Ranks:
    """Two scorers in two threads whose `reduce` adds up over both, as two ranks' would."""

    def __init__(self) -> None:
        self.barrier = threading.Barrier(2)
        self.values: dict[int, list[float]] = {}

    def reduce(self, rank):
        def total(numbers):
            self.values[rank] = numbers
            self.barrier.wait(10)
            summed = [sum(pair) for pair in zip(*self.values.values(), strict=True)]
            self.barrier.wait(10)
            return summed

        return total


def on_two_ranks(make_specs, batches):
    """What each of two ranks got: a table, or the error that was raised."""
    ranks, outcomes = Ranks(), {}

    def run(rank):
        row = Row("p")
        with Scorer(make_specs(), reduce=ranks.reduce(rank)) as scorer:
            session = scorer.open([row] * len(batches[rank]), num_generations=1)
            for i, completion in enumerate(batches[rank]):
                session.submit(Rollout(i, row, completion))
            try:
                outcomes[rank] = (session.result(), scorer.weights(0))
            except Exception as error:
                outcomes[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return outcomes


def digits(completions):
    return [float(c) if c.isdigit() else None for c in completions]


def raising(completions):
    if "!" in completions:
        raise ValueError("no")
    return [1.0] * len(completions)


def test_adaptive_weights_agree_over_ranks():
    outcomes = on_two_ranks(lambda: reward_specs(digits, [{"schedule": "adaptive"}]), ["11", "00"])
    assert outcomes[0][1] == outcomes[1][1] == (1.0,)


def test_a_pause_is_decided_over_all_ranks():
    outcomes = on_two_ranks(lambda: reward_specs(digits), ["???", "111"])
    assert isinstance(outcomes[0], tuple)
    outcomes = on_two_ranks(lambda: reward_specs(digits), ["????", "1?"])
    assert all(isinstance(outcomes[rank], ScoringPaused) and outcomes[rank].unscored == 5 for rank in (0, 1))


def test_an_error_on_one_rank_ends_all():
    specs = lambda: [replace(reward_specs(raising)[0], on_error="raise")]  # noqa: E731
    outcomes = on_two_ranks(specs, ["!", "x"])
    assert "ValueError" in str(outcomes[0])
    assert isinstance(outcomes[1], RewardError)
    assert "other ranks" in str(outcomes[1])
