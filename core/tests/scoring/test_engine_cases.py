"""The scenarios of data/engine_cases.jsonl that concern scoring, each as a test; the others say who answers."""

from __future__ import annotations

import json
import logging
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from plaudit import Verdict, load_reward, reward, verifier
from plaudit.scoring.policy import resolve
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import RewardSpec, reward_specs
from plaudit.types import Rollout, Row

CASES = [json.loads(line) for line in (Path(__file__).parent / "data" / "engine_cases.jsonl").read_text().splitlines()]
ELSEWHERE = {
    "engine-threads-02": "tests/test_engine_cases.py; here test_faults' tower in a worker",
    "engine-host-05": "plaudit-math's test_properties; here test_faults' leaking worker",
    "engine-cache-03": "tests/test_engine_cases.py",
    "engine-scope-01": "tests/test_engine_cases.py",
    "engine-scope-03": "tests/test_engine_cases.py",
    "engine-scope-06": "tests/test_engine_cases.py",
    "engine-files-01": "tests/bridges/test_harbor.py",
    "engine-files-02": "tests/bridges/test_harbor.py",
}
TESTS = {}
pytestmark = pytest.mark.usefixtures("nothing_left")


def case(identifier):
    def add(function):
        TESTS[identifier] = function
        return function

    return add


@pytest.mark.parametrize("row", CASES, ids=[row["id"] for row in CASES])
def test_case(row, score, hostile, caplog):
    if row["id"] in ELSEWHERE:
        pytest.skip(ELSEWHERE[row["id"]])
    caplog.set_level(logging.INFO, "plaudit.scoring")
    TESTS[row["id"]](score=score, hostile=hostile, caplog=caplog)


@case("engine-shape-01")
def one_score_for_three(score, **_):
    def broadcast(completions):
        return [1.0]

    with pytest.raises(ValueError, match="'broadcast' returned 1 scores for 3 completions"):
        score(broadcast, ["a", "b", "c"])


@case("engine-shape-04")
def one_of_five_raises(score, **_):
    seen = []

    @reward(granularity="rollout")
    def grader(completions):
        seen.append(1.0)
        if completions[0] == "2":
            raise RuntimeError("after its score was appended")
        return [float(completions[0])]

    table = score(grader, list("01234"))
    assert [row[0] for row in table.scores] == [0.0, 1.0, None, 3.0, 4.0]
    assert [bool(cell) for cell in table.columns["grader/failure"]] == [False, False, True, False, False]


@case("engine-shape-05")
def floats_and_mappings(score, **_):
    def floats(completions):
        return [0.5, 1.0]

    def mappings(completions):
        return [{"score": 1.0, "extra": [1, 2, 3]}, {"score": 0.0}]

    table = score([floats, mappings], ["a", "b"])
    assert table.scores == ((0.5, 1.0), (1.0, 0.0))
    assert table.columns["mappings/extra"] == ([1, 2, 3], None)


@case("engine-shape-07")
def the_whole_extracted_answer(score, **_):
    @verifier
    def extracts(completion, reference):
        return Verdict(1.0, extracted="137")

    def logs(completions, log_extra):
        log_extra("answer_found", ["137"])
        return [1.0]

    table = score([extracts, logs], ["the answer is 137"])
    assert table.columns["extracts/extracted"] == ("137",)
    assert table.columns["answer_found"] == ("137",)


@case("engine-missing-01")
def an_abstention_is_left_out_of_the_sum(score, **_):
    import torch
    from plaudit.grpo.advantages import compute_advantages

    table = score([lambda completions: [None, 1.0, 0.0, 1.0], lambda completions: [1.0, 0.0, 1.0, 1.0]], list("abcd"))
    assert table.scores[0] == (None, 1.0)
    rows = [[float("nan") if s is None else s for s in row] for row in table.scores]
    found = compute_advantages(torch.tensor(rows), num_generations=4, weights=table.weights, scale="none")
    assert found.values.tolist() == pytest.approx([1.0 - 1.25, 1.0 - 1.25, 1.0 - 1.25, 2.0 - 1.25])


@case("engine-missing-04")
def infinity_is_an_error(score, **_):
    def infinite(completions):
        return [float("inf"), 1.0]

    table = score(infinite, ["a", "b"])
    assert table.scores == ((None,), (1.0,))
    assert table.failures[0].kind == "infinite"
    with pytest.raises(Exception, match=r"'infinite' failed on rollout 0.*returned inf"):
        score([replace(reward_specs(infinite)[0], on_error="raise")], ["a", "b"])


@case("engine-missing-05")
def an_unreadable_gold_warns(score, caplog, **_):
    @verifier
    def math_like(completion, reference):
        return (
            Verdict.abstain("the gold cannot be parsed") if reference == "\\frac{" else float(completion == reference)
        )

    table = score(math_like, ["1", "1", "2"], columns={"answer": ["1", "\\frac{", "1"]})
    assert [row[0] for row in table.scores] == [1.0, None, 0.0]
    assert "'math_like' has given no score 1 times so far; e.g. the gold cannot be parsed" in caplog.text


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
