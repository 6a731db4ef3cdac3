"""Failure policies, executors, retries, breaker, limits and rates."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from plaudit import UsageError, load_reward, reward, verifier
from plaudit.scoring.breaker import Breaker
from plaudit.scoring.errors import LengthError, RewardError, ScoringPaused
from plaudit.scoring.policy import resolve
from plaudit.scoring.spec import RewardSpec, reward_specs

pytestmark = pytest.mark.usefixtures("nothing_left")


@reward(granularity="rollout")
def picky(completions):
    """Raises on "bad"."""
    if completions[0] == "bad":
        raise ValueError("cannot")
    return [1.0]


@pytest.mark.parametrize(
    ("on_error", "scores", "dropped"),
    [
        (None, [1.0, None, 1.0, 1.0], set()),
        ("abstain", [1.0, None, 1.0, 1.0], set()),
        ("zero", [1.0, 0.0, 1.0, 1.0], set()),
        ("drop_group", [1.0, None, 1.0, 1.0], {0, 1}),
    ],
)
def test_on_error(on_error, scores, dropped, score):
    spec = replace(reward_specs(picky)[0], on_error=on_error)
    table = score([spec], ["a", "bad", "c", "d"], num_generations=2)
    assert [row[0] for row in table.scores] == scores
    assert table.dropped == dropped
    assert table.runtime["scoring/picky/failures/ValueError"] == 1
    assert table.failures[0].rollouts == (1,)


def test_on_error_raise_names_reward_and_cause(score):
    spec = replace(reward_specs(picky)[0], on_error="raise")
    with pytest.raises(RewardError, match=r"'picky' failed on rollout 1: ValueError: cannot") as caught:
        score([spec], ["a", "bad"])
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("returned", [[1.0], [1.0] * 4, [], 1.0, "abc", {"score": [1.0] * 3}, None])
@pytest.mark.parametrize("on_error", ["abstain", "zero"])
def test_a_wrong_length_always_raises_naming_the_reward(returned, on_error, score):
    def short(completions):
        return returned

    with pytest.raises(ValueError, match="'short' returned") as caught:
        score([replace(reward_specs(short)[0], on_error=on_error)], ["a", "b", "c"])
    assert isinstance(caught.value, LengthError)


def test_retries_cure_declared_exceptions(score):
    tries: dict[str, int] = {}

    @reward(granularity="rollout", retries=2, retry_on=(ConnectionError,))
    def flaky(completions, log_extra):
        text = completions[0]
        tries[text] = tries.get(text, 0) + 1
        log_extra("try", [tries[text]])
        if tries[text] <= {"once": 1, "always": 9}.get(text, 0):
            raise ConnectionError("down")
        if text == "other":
            raise ValueError("not worth a retry")
        return [1.0]

    spec = replace(reward_specs(flaky)[0], backoff_s=0.01)
    table = score([spec], ["fine", "once", "always", "other"])
    assert [row[0] for row in table.scores] == [1.0, 1.0, None, None]
    assert tries == {"fine": 1, "once": 2, "always": 3, "other": 1}
    assert table.runtime["scoring/flaky/retries"] == 3
    assert table.columns["try"] == (1, 2, None, None)


def test_the_breaker_opens_probes_and_closes(caplog):
    breaker = Breaker("judge", failures=3, cooldown_s=0.05)
    for _ in range(4):
        assert breaker.allows() or breaker.state == "open"
        breaker.failed("down")
    assert not breaker.allows()
    assert "down" in breaker.refusal()
    time.sleep(0.06)
    assert breaker.allows()  # the probe
    assert not breaker.allows()  # only one
    breaker.failed("still down")
    assert breaker.state == "open"
    time.sleep(0.11)
    assert breaker.allows()
    breaker.succeeded()
    assert breaker.state == "closed"
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert len(caplog.records) == 2
    state = Breaker("judge", failures=1, cooldown_s=9)
    state.failed("x")
    again = Breaker("judge", failures=1, cooldown_s=9)
    again.load_state_dict(state.state_dict())
    assert again.state == "open"
    assert again.allows()


def test_an_open_breaker_leaves_the_rest_unscored(score):
    calls = []

    @reward(granularity="rollout", max_concurrency=1)
    def broken(completions):
        calls.append(1)
        raise RuntimeError("gone")

    table = score([replace(reward_specs(broken)[0], breaker_failures=4)], [str(i) for i in range(2000)])
    assert len(calls) == 4
    assert table.runtime["scoring/broken/breaker_open"] == 1
    assert table.runtime["scoring/broken/failures/breaker"] == 1996


def closure():
    def inner(completion, reference):
        return 1.0

    return inner


async def coroutine(completions):
    return [1.0]


def plain(completions):
    return [1.0]


@verifier
def check(completion, reference):
    return 1.0


@verifier(timeout_s=5)
def slow_check(completion, reference):
    return 1.0


def with_environments(completions, environments):
    return [1.0]


@pytest.mark.parametrize(
    ("component", "more", "executor"),
    [
        ("plain", {}, "thread"),
        ("plain", {"executor": "process"}, "process"),
        ("coroutine", {}, "loop"),
        ("check", {}, "thread"),
        ("check", {"timeout_s": 3}, "process"),
        ("slow_check", {}, "process"),
        ("slow_check", {"executor": "thread"}, "thread"),
        ("with_environments", {"executor": "process"}, "thread"),
        (closure(), {"executor": "process"}, "thread"),
        (verifier(closure(), timeout_s=5), {}, "thread"),
    ],
)
def test_the_executor_that_is_chosen(component, more, executor):
    loaded = load_reward(f"{__file__}:{component}" if isinstance(component, str) else component)
    assert resolve(RewardSpec(loaded, "r", **more)).executor == executor


@pytest.mark.parametrize(
    ("component", "more", "message"),
    [
        (coroutine, {"executor": "thread"}, "runs on the loop"),
        (plain, {"executor": "loop"}, "would block the loop"),
        (plain, {"executor": "gpu"}, "executor = 'gpu'"),
        (plain, {"on_error": "ignore"}, "on_error = 'ignore'"),
        (plain, {"granularity": "token"}, "granularity = 'token'"),
        (plain, {"timeout_s": -1}, "timeout_s = -1"),
        (plain, {"retries": -1}, "retries = -1"),
        (plain, {"max_concurrency": 0}, "max_concurrency = 0"),
        (plain, {"requests_per_s": 0}, "requests_per_s = 0"),
        (plain, {"clip": (1, 0)}, "clip"),
        (plain, {"cache": True}, "cache needs"),
        (plain, {"weight": "much"}, "weight"),
    ],
)
def test_wrong_policies_are_refused(component, more, message):
    with pytest.raises(UsageError, match=message):
        resolve(RewardSpec(load_reward(component), "r", **more))


def test_too_many_unscored_rollouts_pause_the_run(score):
    with pytest.raises(ScoringPaused, match=r"3 of 4 rollouts have no score.*picky: ValueError × 3.*resume") as caught:
        score(picky, ["bad", "bad", "bad", "x"], max_unscored_share=0.5)
    assert (caught.value.unscored, caught.value.total) == (3, 4)
    score(picky, ["bad", "bad", "x", "x"], max_unscored_share=0.5)
    score(picky, ["bad", "bad", "bad", "x"], max_unscored_share=0.5, mode="eval")


def test_what_failed_is_said(score, caplog):
    table = score(picky, ["bad", "x"])
    assert "reward 'picky' failed on 1 of 2 rollouts, first with ValueError: cannot" in caplog.text
    assert "has given no score" not in caplog.text
    assert table.runtime["scoring/picky/abstentions"] == 0
