"""Scenarios of the engine cases that several distributions answer together; those of the runtime alone are in core."""

from __future__ import annotations

import threading
import time

import pytest
from plaudit import load_reward, load_verifier
from plaudit.scoring.scorer import Scorer
from plaudit.scoring.spec import environment_spec, reward_specs
from plaudit.types import Rollout, Row

TOWER = r"\boxed{9^{9^{9}}}"


def test_a_tower_in_a_worker_thread_returns_within_the_limit():
    """engine-threads-02: no alarm works outside the main thread."""
    verify, verdicts = load_verifier("math", options={"timeout_s": 2.0}), []
    started = time.monotonic()
    thread = threading.Thread(target=lambda: verdicts.append(verify(TOWER, "1")))
    thread.start()
    thread.join(60)
    assert [verdict.score for verdict in verdicts] == [0.0]
    assert time.monotonic() - started < 60


def test_two_extraction_policies_by_turns_cost_no_more_than_one():
    """engine-cache-03: a cache of size one would compile its pattern at each call."""
    box, free = (load_verifier("math", options={"require_box": value}) for value in (True, False))
    pairs = [(rf"so \boxed{{{number}}}", str(number)) for number in range(300)]

    def seconds(verifiers):
        started = time.process_time()
        for number, (completion, gold) in enumerate(pairs):
            assert verifiers[number % 2](completion, gold).score == 1.0
        return time.process_time() - started

    seconds((box, free))
    alone = min(seconds((box, box)) for _ in range(3))
    assert min(seconds((box, free)) for _ in range(3)) < 2 * alone + 0.05


def test_the_prompt_is_not_scored():
    """engine-scope-01: the box is in the prompt only."""
    reward = load_reward("format")
    prompts = [[{"role": "system", "content": r"Put the result within \boxed{}."}]]
    completions = [[{"role": "assistant", "content": "The result is 12."}]]
    assert reward(prompts=prompts, completions=completions, reference=[{"rule": "has_boxed"}]) == [0.0]


@pytest.mark.parametrize("length", [180, 2_000])
def test_a_long_box_is_still_found(length):
    """engine-scope-03: no window of characters cuts the opening of the box."""
    terms = " + ".join(f"x_{{{number}}}" for number in range(length // 8))
    assert load_verifier("math")(rf"Therefore \boxed{{{terms}}}.", terms).score == 1.0


def test_an_environment_without_a_parser_is_scored_on_what_the_verifier_extracts():
    """engine-scope-06: a parser that defaults to the whole text would score every rollout 0."""

    class Quiz:
        def reset(self, **row):
            return "What is 2 + 2?"

        def get_reward(self, completion):
            return load_verifier("math")(completion, "4").score

    said = [[{"role": "assistant", "content": rf"Two and two: \boxed{{{number}}}."}] for number in (4, 5)]
    row = Row([{"role": "user", "content": ""}], {"answer": "4"})
    rollouts = [Rollout(index, row, completion, environment=Quiz()) for index, completion in enumerate(said)]
    rewards = [*reward_specs("math"), environment_spec(Quiz)]
    with Scorer(rewards) as scorer, scorer.open([row, row], num_generations=1) as session:
        for rollout in rollouts:
            session.submit(rollout)
        assert session.result().scores == ((1.0, 1.0), (0.0, 0.0))
