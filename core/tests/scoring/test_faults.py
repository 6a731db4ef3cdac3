"""One of N rollouts goes wrong in every way there is: the other N - 1 scores are right, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit import reward, verifier
from plaudit.scoring.spec import reward_specs
from victims import VICTIM, N, batch, expect

pytestmark = pytest.mark.usefixtures("nothing_left")
# what the completion asks for → the kind of failure that is reported; None = it does no harm
PROCESS_FAULTS = {
    "hang": "timeout", "tower": "timeout", "loop": "timeout", "kill": "killed", "exit": "killed", "memory": "memory",
    "leak": None, "print": None, "fork": None, "orphan": None, "raise": "ValueError", "system_exit": "SystemExit",
    "interrupt": "KeyboardInterrupt", "close_all": "killed",
}  # fmt: skip


@pytest.mark.parametrize("component", ["judge", "function"])
def test_faults_in_a_worker_process(component, score, hostile):
    """All faults in one batch, one rollout each, beside rollouts that are fine."""
    completions = [*PROCESS_FAULTS, "fine", "fine 2"]
    started = time.monotonic()
    table = score(hostile(component), completions)
    assert time.monotonic() - started < 20
    assert [row[0] for row in table.scores] == [1.0 if PROCESS_FAULTS.get(c) is None else None for c in completions]
    assert {f.rollouts[0]: f.kind for f in table.failures} == {
        i: kind for i, kind in enumerate(PROCESS_FAULTS.values()) if kind is not None
    }


@pytest.mark.parametrize("fault", ["kill", "tower"])
def test_a_lost_worker_is_replaced_for_the_next_batch(fault, score, hostile):
    expect(score(hostile("judge"), batch(fault)), PROCESS_FAULTS[fault])


def test_a_leaking_worker_is_replaced(score, hostile):
    spec = replace(reward_specs(hostile("function"))[0], max_concurrency=1, timeout_s=20)
    table = score([spec], ["leak"] * 4)  # together more than one worker may hold
    assert [row[0] for row in table.scores] == [1.0] * 4


def test_a_new_worker_has_what_the_last_one_imported(score, hostile):
    spec = replace(reward_specs(hostile("lazy"))[0], max_concurrency=1)
    assert [row[0] for row in score([spec], ["first", "second", "kill", "fresh"]).scores] == [0.0, 1.0, None, 1.0]


def raises(completion, kind):
    if kind == "raise":
        raise ValueError("no")
    if kind == "system_exit":
        raise SystemExit
    if kind == "interrupt":
        raise KeyboardInterrupt
    if kind == "unprintable":
        raise Unprintable
    return {"none": None, "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "text": "1.0"}[kind]


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot print")


THREAD_FAULTS = {
    "raise": "ValueError", "system_exit": "SystemExit", "interrupt": "KeyboardInterrupt", "unprintable": "Unprintable",
    "inf": "infinite", "-inf": "infinite", "text": "contract",
}  # fmt: skip


@pytest.mark.parametrize(("fault", "kind"), THREAD_FAULTS.items())
@pytest.mark.parametrize("is_async", [False, True])
def test_faults_on_threads_and_loop(fault, kind, is_async, score):
    @reward(granularity="rollout")
    def on_thread(completions):
        return [raises(completions[0], fault) if completions[0] == fault else 1.0]

    @reward(granularity="rollout")
    async def on_loop(completions):
        await asyncio.sleep(0)
        return [raises(completions[0], fault) if completions[0] == fault else 1.0]

    expect(score(on_loop if is_async else on_thread, batch(fault)), kind)


@pytest.mark.parametrize("fault", ["none", "nan"])
def test_none_and_nan_abstain(fault, score):
    def plain(completions):
        return [raises(c, fault) if c == fault else 1.0 for c in completions]

    table = score(plain, batch(fault))
    assert [row[0] for row in table.scores] == [1.0 if i != VICTIM else None for i in range(N)]
    assert not table.failures
    assert table.runtime["scoring/plain/abstentions"] == 1


def test_infinity_in_a_batch_costs_one_rollout(score):
    def plain(completions):
        return [float("inf") if c == "inf" else 1.0 for c in completions]

    expect(score(plain, batch("inf")), "infinite")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_never_goes_on_as_the_trainer(score):
    @reward(granularity="rollout")
    def forks(completions):
        if completions[0] == "fork" and (child := os.fork()):
            os.waitpid(child, 0)
        return [1.0]

    expect(score(forks, batch("fork")), None)


def test_mutating_rewards_see_only_copies(score):
    columns = {"answer": [{"parts": ["a"]} for _ in range(N)]}
    conversation = [[{"role": "assistant", "content": f"fine {i}"}] for i in range(N)]

    def mutates(prompts, completions, completion_ids, answer, trainer_state):
        for completion, one in zip(completions, answer, strict=True):
            completion[0]["content"] = "changed"
            one["parts"].append("b")
        completions.clear()
        prompts.clear()
        completion_ids[0].append(9)
        trainer_state.global_step = 99
        return [1.0] * N

    seen = []

    def looks(prompts, completions, completion_ids, answer, trainer_state):
        time.sleep(0.1)
        seen.append((len(prompts), completions, completion_ids[0], answer[0], trainer_state.global_step))
        return [1.0] * N

    from types import SimpleNamespace

    state = SimpleNamespace(global_step=3, log_history=[])
    score([mutates, looks], conversation, columns=columns, trainer_state=state)
    original = [[{"role": "assistant", "content": f"fine {i}"}] for i in range(N)]
    assert seen == [(N, original, [0, 1], {"parts": ["a"]}, 3)]
    assert conversation == original
    assert columns["answer"][0] == {"parts": ["a"]}
    assert state.global_step == 3


def test_values_that_do_not_pickle(score, hostile):
    lock = threading.Lock()
    columns = {"answer": [lock if i == VICTIM else "x" for i in range(N)]}
    table = score(hostile("judge"), batch("fine"), columns=columns)
    expect(table, "unpicklable")
    assert [row[0] for row in score(lambda completions, answer: [1.0] * N, batch("x"), columns=columns).scores] == [
        1.0
    ] * N


def test_two_of_one_name(score):
    table = score([lambda completions: [1.0] * N, lambda completions: [0.0] * N], batch("x"))
    assert len(set(table.names)) == 2
    assert table.scores == ((1.0, 0.0),) * N


def test_printing_megabytes_on_a_thread(score, capsys):
    @reward(granularity="rollout")
    def prints(completions):
        print("x" * 1_000_000)
        return [1.0]

    expect(score(prints, batch("print")), None)


@pytest.mark.parametrize("text", ["\ud800\udfff", "\0", "x" * 5_000_000], ids=["surrogates", "nul", "5 MB"])
@pytest.mark.parametrize("kind", ["thread", "process"])
def test_hostile_text_passes(text, kind, score, hostile):
    @verifier
    def reads(completion, reference):
        return float(len(completion) > 0)

    table = score(reads if kind == "thread" else hostile("judge"), batch(text))
    expect(table, None)


FAULTS = st.sampled_from(["fine", "raise", "nan", "none", "inf", "text", "system_exit"])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(FAULTS, min_size=3, max_size=3), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_any_mixture_of_faults_in_any_order(mixture, random):
    """Three rewards (batch, rollout on threads, rollout on the loop) over N rollouts, submitted in any order."""
    from plaudit.scoring.scorer import Scorer
    from plaudit.types import Rollout, Row

    @reward(granularity="rollout")
    def one(completions):
        return [1.0 if completions[0][0] == "fine" else raises(None, completions[0][0])]

    @reward(granularity="rollout")
    async def two(completions):
        return [1.0 if completions[0][1] == "fine" else raises(None, completions[0][1])]

    def three(completions):
        return [1.0 if c[2] in ("fine", "raise", "system_exit") else raises(None, c[2]) for c in completions]

    rows = [Row("p") for _ in mixture]
    order = list(range(len(mixture)))
    random.shuffle(order)
    with Scorer(reward_specs([one, two, three]), max_unscored_share=None) as scorer:
        session = scorer.open(rows, num_generations=1)
        for i in order:
            session.submit(Rollout(i, rows[i], mixture[i]))
        table = session.result()
    good = {0: {"fine"}, 1: {"fine"}, 2: {"fine", "raise", "system_exit"}}
    assert table.scores == tuple(tuple(1.0 if faults[k] in good[k] else None for k in range(3)) for faults in mixture)
    failing = sum(f in ("raise", "inf", "text", "system_exit") for faults in mixture for f in faults[:2])
    failing += sum(faults[2] in ("inf", "text") for faults in mixture)
    assert sum(len(f.rollouts) for f in table.failures) == failing
