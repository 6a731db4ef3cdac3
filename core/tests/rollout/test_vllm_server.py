"""The vLLM server generator against stand-ins: what it asks for, and what servers may do to it."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from plaudit.errors import UsageError
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.structured import StructuredOutput
from plaudit.rollout.vllm.http import VLLMServerError
from plaudit.rollout.vllm.push import free_port, master_address
from plaudit.rollout.vllm.server import ServerOptions, VLLMServerGenerator

sys.path.append(str(Path(__file__).parent))
from fake_vllm import RIGHT, FakeVLLM, close_all

PROMPTS = [Request(index, (10 + index, 3)) for index in range(8)]
SAMPLING = SamplingOptions(max_new_tokens=4)


class Policy(torch.nn.Module):
    """Weights, a device and end tokens are all that the generator looks at."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3, 2), 0.001))
        self.bias = torch.nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))
        self.device = torch.device("cpu")
        self.generation_config = type("Config", (), {"eos_token_id": [1, 7]})()

    def learn(self):
        with torch.no_grad():
            self.weight += 0.001


@pytest.fixture
def servers():
    made = []

    def start(count=1):
        made.extend(FakeVLLM() for _ in range(count))
        return made[-count:]

    yield start
    close_all(made)


@pytest.fixture
def connect():
    made = []

    def connected(servers, policy=None, **more):
        urls = [server.url for server in servers]
        settings = {"timeout_s": 20.0, "request_timeout_s": 20.0, "group_port": 0, **more}
        made.append(VLLMServerGenerator(policy or Policy(), None, urls, ServerOptions(**settings)))
        return made[-1]

    yield connected
    for generator in made:
        generator.close()


def by_index(generated):
    return sorted(generated, key=lambda made: made.index)


def in_thread(work, *arguments):
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


# What is asked


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


# Weights


def test_weights_arrive_as_they_are_and_only_when_they_moved(servers, connect):
    (server,) = servers()
    policy = Policy()
    generator = connect([server], policy)
    for step in range(3):
        generator.refresh(step)
        assert server.weights["weight"].equal(policy.weight)
        assert server.weights["bias"].dtype == torch.bfloat16
        assert next(iter(generator.generate(PROMPTS[:1], SAMPLING))).completion_ids[1] == step + 1
        policy.learn()
    pushes = len(server.calls)
    policy_state = policy.weight.detach().clone()
    generator.refresh(3)
    order = [path for path, _, _ in server.calls[pushes:]]
    assert order == [
        "pause", "start_weight_update", "update_weights", "finish_weight_update", "reset_prefix_cache", "resume",
    ]  # fmt: skip
    assert policy.weight.equal(policy_state)
    before = len(server.calls)
    generator.refresh(3)
    assert len(server.calls) == before
    policy.learn()
    generator.refresh(3)  # the same step, other weights: a second run, or the best model loaded at the end
    assert server.weights["weight"].equal(policy.weight)


def test_many_weights_travel_in_parts(servers, connect, monkeypatch):
    monkeypatch.setattr("plaudit.rollout.vllm.push.CHUNK_BYTES", 25)
    (server,) = servers()
    policy = Policy()
    connect([server], policy).refresh(0)
    assert [path for path, _, _ in server.calls].count("update_weights") == 2
    assert server.weights["weight"].equal(policy.weight)


def test_adapters_are_merged_on_the_way_and_nothing_drifts(servers, connect):
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    base = LlamaForCausalLM(LlamaConfig(vocab_size=20, **sizes)).to(torch.bfloat16)
    policy = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False))
    name = "model.layers.0.self_attn.q_proj"
    layer = policy.get_submodule(f"base_model.model.{name}")
    expected = (layer.base_layer.weight.float() + layer.get_delta_weight("default").float()).detach()
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    (server,) = servers()
    generator = connect([server], policy)
    generator.refresh(0)
    first = server.weights
    for step in range(1, 20):
        generator.refresh(step)
    assert server.weights.keys() == first.keys()
    assert all(server.weights[key].equal(first[key]) for key in first)
    torch.testing.assert_close(first[f"{name}.weight"].float(), expected, rtol=0.01, atol=1e-3)
    assert all("lora" not in key for key in server.weights)
    assert all(value.equal(before[key]) for key, value in policy.state_dict().items())


# Servers that do wrong


def test_a_server_that_is_busy_for_ever_ends_in_an_error(servers, connect):
    (server,) = servers()
    server.broken["health"] = (503, "loading the model")
    began = time.monotonic()
    with pytest.raises(
        VLLMServerError, match=rf"{server.url} after 1 s .vllm_server_timeout.*503: loading.*plaudit vllm"
    ):
        connect([server], timeout_s=1.0)
    assert time.monotonic() - began < 10


def test_nothing_listens(connect):
    port = free_port()
    server = type("Nobody", (), {"url": f"http://127.0.0.1:{port}"})
    with pytest.raises(VLLMServerError, match=rf"127.0.0.1:{port} after 0.5 s"):
        connect([server], timeout_s=0.5)


CANNOT_SERVE = {
    "no vLLM": ("health", (404, "Not Found"), "is no vLLM server"),
    "not in development mode": ("get_world_size", (404, "Not Found"), "VLLM_SERVER_DEV_MODE=1"),
    "key": ("v1/models", (401, "Unauthorized"), "VLLM_API_KEY"),
    "no transfer": ("init_weight_transfer_engine", (500, "Weight transfer not configured"), "not configured.*backend"),
}


@pytest.mark.parametrize("case", CANNOT_SERVE)
def test_servers_that_cannot_serve_are_named_with_the_reason(case, servers, connect):
    path, answer, expected = CANNOT_SERVE[case]
    (server,) = servers()
    server.broken[path] = answer
    with pytest.raises(VLLMServerError, match=expected) as raised:
        connect([server], timeout_s=5.0).refresh(0)
    assert server.url in str(raised.value)


def test_log_probs_before_temperature_are_refused(servers, connect):
    (server,) = servers()
    server.raw_logprobs = True
    with pytest.raises(VLLMServerError, match="--logprobs-mode processed_logprobs"):
        connect([server])


def test_a_request_that_is_wrong_is_not_asked_again(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    server.broken["v1/completions"] = (400, "maximum context length is 128 tokens")
    with pytest.raises(UsageError, match=r"refused a request.*maximum context length is 128"):
        list(generator.generate(PROMPTS, SAMPLING))


def test_a_server_that_fails_each_request_ends_in_an_error(servers, connect, monkeypatch):
    monkeypatch.setattr("plaudit.rollout.vllm.servers.ATTEMPTS", 3)
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    server.broken["v1/completions"] = (500, "CUDA error")
    with pytest.raises(VLLMServerError, match=rf"failed 3 times.*{server.url}.*CUDA error"):
        list(generator.generate(PROMPTS[:1], SAMPLING))


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


def test_closing_twice_does_nothing(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.close()
    generator.close()


ADDRESSES = [
    (None, "http://127.0.0.1:8000", "127.0.0.1"),
    ("10.1.2.3", "http://10.1.2.4:8000", "10.1.2.3"),
    ("10.1.2.3", "http://127.0.0.1:8000", "10.1.2.3"),
    ("localhost", "http://127.0.0.1:8000", "localhost"),
]


@pytest.mark.parametrize(("given", "url", "expected"), ADDRESSES)
def test_where_servers_find_the_trainer(given, url, expected, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    if given is not None:
        monkeypatch.setenv("MASTER_ADDR", given)
    assert master_address(url) == expected


def test_the_port_where_ranks_meet_is_not_taken(servers, connect, monkeypatch):
    (server,) = servers()
    port = free_port()
    monkeypatch.setenv("MASTER_PORT", str(port))
    with pytest.raises(UsageError, match=f"vllm_group_port: {port} is MASTER_PORT"):
        connect([server], group_port=port).refresh(0)


def eventually(holds, seconds=20.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.05)
    return False


def test_each_request_may_have_a_limit_of_its_own(servers, connect):
    (server,) = servers()
    generator = connect([server])
    generator.refresh(0)
    limits = [2, None, 100]
    sampling = SamplingOptions(max_new_tokens=6, generation_kwargs={"min_new_tokens": 4})
    list(generator.generate([Request(i, (10 + i,), max_new_tokens=limit) for i, limit in enumerate(limits)], sampling))
    bodies = sorted(server.bodies, key=lambda body: body["prompt"])
    assert [(body["min_tokens"], body["max_tokens"]) for body in bodies] == [(2, 2), (4, 6), (4, 6)]
