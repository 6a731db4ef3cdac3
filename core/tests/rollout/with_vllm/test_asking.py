"""What vLLM servers are asked, and what becomes of their answers."""

from __future__ import annotations

import pytest
import torch
from plaudit.errors import UsageError
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.structured import StructuredOutput
from stand_ins import PROMPTS, RIGHT, SAMPLING, by_index, eventually


def test_completions_carry_ids_log_probs_and_why_they_ended(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    made = by_index(generator.generate(PROMPTS, SAMPLING))
    assert [one.index for one in made] == list(range(8))
    assert {(one.completion_ids, one.logprobs, one.finish_reason) for one in made} == {
        ((RIGHT, 1, 1), (-0.5, -0.25, -0.125), "stop")
    }
    assert not generator.exact


def test_sampling_options_and_seeds_are_those_of_the_run(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    sampling = SamplingOptions(
        max_new_tokens=6, temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, repetition_penalty=1.2, stop=("!",), seed=3,
        structured=StructuredOutput(choice=("yes", "no")),
    )  # fmt: skip
    list(generator.generate(PROMPTS[:2], sampling))
    first, second = sorted(server.bodies, key=lambda body: body["prompt"])
    expected = {
        "prompt": [10, 3], "max_tokens": 6, "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1,
        "repetition_penalty": 1.2, "stop": ["!"], "stop_token_ids": [1, 7], "model": "tiny", "return_token_ids": True,
        "logprobs": 0, "structured_outputs": {"choice": ["yes", "no"]},
    }  # fmt: skip
    assert {name: first[name] for name in expected} == expected
    assert first["seed"] != second["seed"]
    server.bodies.clear()
    list(generator.generate(PROMPTS[:2], sampling))
    assert {body["seed"] for body in server.bodies} == {first["seed"], second["seed"]}


def test_seeds_come_from_the_random_state_or_the_request(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)

    def seeds(requests, sampling=SAMPLING):
        server.bodies.clear()
        torch.manual_seed(0)
        list(generator.generate(requests, sampling))
        return [body.get("seed") for body in sorted(server.bodies, key=lambda body: body["prompt"])]

    assert seeds(PROMPTS) == seeds(PROMPTS)
    assert seeds([Request(0, (1,), seed=42)]) == [42]
    assert seeds(PROMPTS[:1], SamplingOptions(temperature=0.0)) == [None]


def test_results_come_as_they_finish(servers, connect):
    (server,) = servers()
    server.answer_s = lambda prompt: 0.0 if prompt[0] == 17 else 0.5
    generator = connect([server])
    generator.refresh(0)
    assert next(iter(generator.generate(PROMPTS, SAMPLING))).index == 7


def test_leaving_early_cancels_what_is_under_way(servers, connect):
    (server,) = servers()
    server.answer_s = lambda prompt: 0.0 if prompt[0] == 17 else 60
    generator = connect([server])
    generator.refresh(0)
    answers = generator.generate(PROMPTS, SAMPLING)
    next(answers)
    answers.close()
    assert eventually(lambda: server.cancelled == 7)


def test_requests_are_spread_by_load(servers, connect):
    slow, quick = servers(2)
    slow.answer_s, quick.answer_s = 0.5, 0.0
    generator = connect([slow, quick])
    generator.refresh(0)
    list(generator.generate(PROMPTS * 4, SAMPLING))
    assert len(slow.bodies) + len(quick.bodies) == 32
    assert len(slow.bodies) == len(quick.bodies)  # all at once: each gets half
    list(generator.generate(PROMPTS, SAMPLING))
    assert len(slow.bodies) + len(quick.bodies) == 40


def test_candidates_of_top_k_are_told(servers, connect):
    (server,) = servers()
    server.top_logprobs = {"token_id:5": -0.5, "token_id:8": -1.0, "token_id:6": -9999.0}
    generator = connect([server], candidates=True)
    generator.refresh(0)
    (made,) = generator.generate(PROMPTS[:1], SamplingOptions(top_k=3, top_p=0.9))
    assert made.candidates == ((RIGHT, 8), (1, 5, 8), (1, 5, 8))
    assert server.bodies[-1]["logprobs"] == 3


def test_completions_fit_into_what_the_server_takes(servers, connect):
    (server,) = servers()  # 128 tokens
    generator = connect([server])
    generator.refresh(0)
    list(generator.generate([Request(0, (2,) * 126)], SAMPLING))
    assert server.bodies[-1]["max_tokens"] == 2
    with pytest.raises(UsageError, match="prompt of 128 tokens, but the vLLM server takes 128"):
        list(generator.generate([Request(0, (2,) * 128)], SAMPLING))
    with pytest.raises(UsageError, match="request 3 has an empty prompt"):
        list(generator.generate([Request(3, ())], SAMPLING))


def test_more_requests_than_servers_take_at_once_wait_their_turn(servers, connect, monkeypatch):
    monkeypatch.setattr("plaudit.rollout.vllm.servers.IN_FLIGHT", 4)
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    most = []
    server.answer_s = lambda prompt: most.append(generator._pool.servers[0].load) or 0.01
    assert len(list(generator.generate(PROMPTS * 5, SAMPLING))) == 40
    assert max(most) <= 4


def test_each_request_may_have_a_limit_of_its_own(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    limits = [2, None, 100]
    sampling = SamplingOptions(max_new_tokens=6, generation_kwargs={"min_new_tokens": 4})
    list(generator.generate([Request(i, (10 + i,), max_new_tokens=limit) for i, limit in enumerate(limits)], sampling))
    bodies = sorted(server.bodies, key=lambda body: body["prompt"])
    assert [(body["min_tokens"], body["max_tokens"]) for body in bodies] == [(2, 2), (4, 6), (4, 6)]
