"""Servers that die, hang or come back with other weights lose no completion."""

from __future__ import annotations

import time

import pytest
from plaudit.rollout.vllm.http import VLLMServerError
from stand_ins import PROMPTS, RIGHT, SAMPLING, Policy, by_index, eventually, in_thread


def test_a_death_in_mid_batch_is_made_up_by_the_others(servers, connect):
    dying, other = servers(2)
    dying.answer_s = lambda prompt: 0.0 if prompt[0] == 10 else 60
    generator = connect([dying, other])
    generator.refresh(0)
    answers = generator.generate(PROMPTS, SAMPLING)
    made = [next(answers)]
    dying.die()
    made += list(answers)
    assert [one.index for one in by_index(made)] == list(range(8))
    assert {one.completion_ids[0] for one in made} == {RIGHT}


def test_a_server_that_comes_back_with_old_weights_gets_them_again(servers, connect):
    (server,) = servers()
    policy = Policy()
    generator = connect([server], policy)
    generator.refresh(0)
    policy.learn()
    generator.refresh(1)
    server.answer_s = lambda prompt: 0.0 if prompt[0] == 10 else 60
    answers = generator.generate(PROMPTS, SAMPLING)
    made = [next(answers)]
    server.restart(after_s=0.3)
    server.answer_s = 0.0
    made += list(answers)
    assert [one.index for one in by_index(made)] == list(range(8))
    assert {one.completion_ids for one in made} == {(RIGHT, 2, 1)}
    assert server.instances == 2


def test_a_restart_that_nobody_noticed_is_noticed_by_the_weights(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    server.restart()
    made = list(generator.generate(PROMPTS, SAMPLING))
    assert {one.completion_ids[0] for one in made} == {RIGHT}
    assert len(made) == 8


def test_a_server_that_does_not_come_back_ends_in_an_error(servers, connect):
    (server,) = servers()
    generator = connect([server], timeout_s=1.0)
    generator.refresh(0)
    server.die()
    with pytest.raises(VLLMServerError, match=rf"no vLLM server was usable for 1 s: {server.url} is lost"):
        list(generator.generate(PROMPTS, SAMPLING))


def test_a_request_without_an_answer_is_asked_elsewhere(servers, connect):
    silent, other = servers(2)
    silent.answer_s = 600
    generator = connect([silent, other], request_timeout_s=1.0)
    generator.refresh(0)
    assert len(list(generator.generate(PROMPTS, SAMPLING))) == 8


def test_a_lost_server_gets_the_weights_when_it_is_back(servers, connect):
    lost, other = servers(2)
    policy = Policy()
    generator = connect([lost, other], policy)
    generator.refresh(0)
    lost.die()
    policy.learn()
    generator.refresh(1)
    assert {one.completion_ids for one in generator.generate(PROMPTS, SAMPLING)} == {(RIGHT, 2, 1)}
    lost.start()
    assert eventually(lambda: (generator.refresh(1), lost.weights is not None)[1])
    assert lost.first_weight == 2


def test_a_server_that_a_broken_run_left_paused_goes_on(servers, connect):
    (server,) = servers()
    server.paused = True
    generator = connect([server])
    generator.refresh(0)
    assert len(list(generator.generate(PROMPTS, SAMPLING))) == 8


def test_two_runs_on_one_server_are_told(servers, connect):
    (server,) = servers()
    first, second = connect([server]), connect([server])
    first.refresh(0)
    second.refresh(0)
    with pytest.raises(VLLMServerError, match=rf"another run sends its weights to {server.url}"):
        list(first.generate(PROMPTS, SAMPLING))


def test_another_thread_writes_and_the_owner_attends(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(4)
    server.answer_s = 0.2
    made = []

    def write():
        generator.refresh(4)  # a writer does; the weights are there
        made.extend(generator.generate(PROMPTS, SAMPLING))

    thread = in_thread(write)
    time.sleep(0.1)
    server.restart()
    server.answer_s = 0.0
    while thread.is_alive():
        generator.attend()
        thread.join(0.05)
    assert {one.completion_ids[0] for one in made} == {RIGHT}
    assert len(made) == 8
