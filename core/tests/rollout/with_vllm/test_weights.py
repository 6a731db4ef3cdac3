"""How weights reach vLLM servers, and where they meet the trainer."""

from __future__ import annotations

import pytest
import torch
from plaudit.errors import UsageError
from plaudit.rollout.vllm.push import free_port, master_address
from stand_ins import PROMPTS, SAMPLING, Policy


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
