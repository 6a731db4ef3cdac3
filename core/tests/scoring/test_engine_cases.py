"""The scenarios of data/engine_cases.jsonl that concern scoring, each as a test; the others say who answers."""

from __future__ import annotations

import logging
import signal
import threading
from dataclasses import replace
from pathlib import Path

import engine_contract  # noqa: F401 - its functions answer cases
import pytest
from engine_cases import CASES, ELSEWHERE, TESTS, case
from plaudit import load_reward, reward
from plaudit.scoring.policy import resolve
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec, reward_specs
from plaudit.types import Rollout, Row

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.mark.parametrize("row", CASES, ids=[row["id"] for row in CASES])
def test_case(row, score, hostile, caplog):
    if row["id"] in ELSEWHERE:
        pytest.skip(ELSEWHERE[row["id"]])
    caplog.set_level(logging.INFO, "plaudit.scoring")
    TESTS[row["id"]](score=score, hostile=hostile, caplog=caplog)


@case("engine-missing-06")
def an_outage_is_retried_and_counted(score, **_):
    @reward(granularity="rollout", retries=1)
    def sandboxed(completions):
        if int(completions[0]) % 5 == 0:
            raise ConnectionError("the sandbox is down")
        return [1.0]

    table = score([replace(reward_specs(sandboxed)[0], backoff_s=0.01)], [str(i) for i in range(20)])
    assert [row[0] for row in table.scores] == [None if i % 5 == 0 else 1.0 for i in range(20)]
    assert table.runtime["scoring/sandboxed/retries"] == 4
    assert table.runtime["scoring/sandboxed/failures/ConnectionError"] == 4


@case("engine-threads-05")
def hung_checks_do_not_fill_the_pool(score, **_):
    release = threading.Event()

    @reward(granularity="rollout", timeout_s=0.4, max_concurrency=8)
    def checks(completions):
        if completions[0].startswith("hang"):
            release.wait(30)
        return [1.0]

    try:
        table = score(checks, [f"hang {i}" for i in range(8)] + [f"{i}" for i in range(100)])
    finally:
        release.set()
    assert [row[0] for row in table.scores] == [None] * 8 + [1.0] * 100


@case("engine-threads-06")
def a_killed_worker_is_replaced(score, hostile, **_):
    spec = reward_specs(hostile("judge"))[0]
    assert resolve(spec).executor == "process"
    completions = [f"{i}" for i in range(10)]
    completions[4] = "kill"
    table = score([spec], completions)
    assert [row[0] for row in table.scores] == [None if c == "kill" else 1.0 for c in completions]


@case("engine-threads-07")
def the_alarm_of_the_trainer_stays(score, hostile, **_):
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    handler = signal.getsignal(signal.SIGALRM)
    signal.setitimer(signal.ITIMER_REAL, 60)

    def alarms(completions):
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # raises on a thread, as it must
        return [1.0]

    try:
        table = score([alarms, hostile("alarmed")], ["a"])
        assert table.scores == ((None, 1.0),)
        assert signal.getsignal(signal.SIGALRM) is handler
        assert 0 < signal.setitimer(signal.ITIMER_REAL, 0)[0] <= 60
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not rang


@case("engine-host-01")
def exits_of_a_reward_stay_inside(score, **_):
    @reward(granularity="rollout", on_error="zero")
    def runs(completions):
        if completions[0] != "fine":
            raise {"exit": SystemExit, "interrupt": KeyboardInterrupt}[completions[0]]
        return [1.0]

    assert [row[0] for row in score(runs, ["exit", "fine", "interrupt"]).scores] == [0.0, 1.0, 0.0]


@case("engine-host-02")
def hostile_text_does_no_harm(score, hostile, **_):
    texts = ["\ud800", "\0", "x" * 5_000_000, "fine"]
    assert [row[0] for row in score(hostile("judge"), texts).scores] == [1.0] * 4

    @reward(granularity="rollout")
    def encodes(completions):
        raise ValueError(completions[0].encode().decode())

    table = score(encodes, texts)
    assert all(len(failure.message) < 1000 for failure in table.failures)
    assert len(table.failures) == 4


@case("engine-cache-02")
def other_options_are_not_served_from_the_cache(score, **_):
    import tempfile

    served = Path(__file__).parent / "data" / "served.py"
    with tempfile.TemporaryDirectory() as folder:
        for strict, expected in ((False, 1.0), (True, 0.0), (False, 1.0)):
            spec = RewardSpec(load_reward(f"{served}:equal", options={"strict": strict}), "equal", cache=True)
            table = score([spec], ["A"], columns={"answer": ["a"]}, cache_folder=Path(folder))
            assert table.scores == ((expected,),)


@case("engine-determinism-01")
def the_same_in_any_process_and_order(score, hostile, **_):
    spec = replace(reward_specs(hostile("hashes"))[0], deterministic=False)
    for completions in (["x"] * 20, ["y", *["x"] * 19]):
        table = score([spec], completions, columns={"answer": ["r"] * 20}, processes=3)
        found = {cell for c, cell in zip(completions, table.columns["hashes/extracted"], strict=True) if c == "x"}
        assert len(found) == 1
        SEEN.update(found)
    assert len(SEEN) == 1


SEEN: set[str] = set()


@case("engine-scope-05")
def a_reward_that_is_always_zero_is_loudly_said(caplog, **_):
    def needs_marker(completions):
        return [float("</think>" in c) for c in completions]

    row = Row("p")
    with Scorer(reward_specs(needs_marker)) as scorer:
        for step in range(20):
            session = scorer.open([row] * 2, num_generations=2, step=step)
            for i in range(2):
                session.submit(Rollout(i, row, "no marker"))
            session.result()
    assert "'needs_marker' has scored 0 for every rollout of the last 20 steps" in caplog.text


@case("engine-groups-01")
def no_signal_is_said(caplog, **_):
    def per_group(completions):
        return [float(completions[0])] * len(completions)

    row = Row("p")
    with Scorer([replace(reward_specs(per_group)[0], granularity="group")]) as scorer:
        for step in range(50):
            session = scorer.open([row] * 4, num_generations=2, step=step)
            for i in range(4):
                session.submit(Rollout(i, row, str(i)))
            session.result()
    assert "no signal: for 50 steps" in caplog.text


def test_every_case_is_answered():
    assert {row["id"] for row in CASES} == TESTS.keys() | ELSEWHERE.keys()
