"""Weights for an engine with a copy of its own: the names of a checkpoint, adapters merged, the policy untouched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from plaudit.rollout.policy_weights import moved_since, policy_weights

sys.path.append(str(Path(__file__).parents[1] / "trainer"))
from seeing import make_seeing

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


@pytest.mark.parametrize("tied", [True, False])
def test_names_and_values_are_those_of_a_saved_checkpoint(tied, tiny_model, tmp_path):
    from safetensors.torch import load_file

    model = tiny_model("qwen3", tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    found = dict(policy_weights(model))
    assert found.keys() == saved.keys()
    for name, weight in found.items():
        assert torch.equal(weight, saved[name]), name


EXPERTS = {
    "Qwen3Moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "Mixtral": {"num_local_experts": 4},
}


@pytest.mark.parametrize("kind", [*EXPERTS, "Qwen2.5-VL", "Gemma3"])
@pytest.mark.parametrize("loaded", [False, True])
def test_names_and_parts_are_those_of_a_checkpoint_where_models_compute_with_others(kind, loaded, tmp_path):
    import transformers
    from safetensors.torch import load_file

    if kind in EXPERTS:
        config = getattr(transformers, f"{kind}Config")(**SHAPE, **EXPERTS[kind])
        model = getattr(transformers, f"{kind}ForCausalLM")(config)
    else:
        model, _ = make_seeing(kind)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert saved.keys() != dict(model.named_parameters()).keys()
    found = dict(policy_weights(type(model).from_pretrained(tmp_path) if loaded else model))
    assert found.keys() == saved.keys()
    assert all(torch.equal(found[name], weight) for name, weight in saved.items())


ADAPTERS = {
    "lora": {"r": 4, "target_modules": ["q_proj", "down_proj"]},
    "dora": {"r": 4, "target_modules": ["q_proj", "v_proj"], "use_dora": True},
    "with a whole module": {"r": 4, "target_modules": ["o_proj"], "modules_to_save": ["norm"]},
    "rslora": {"r": 4, "target_modules": "all-linear", "use_rslora": True, "lora_alpha": 3},
}


def adapted(tiny_model, adapter, dtype=torch.float32, **changes):
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    config = LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **ADAPTERS[adapter])
    return get_peft_model(tiny_model("qwen2", **changes).to(dtype), config).eval()


@pytest.mark.parametrize("adapter", ADAPTERS)
@pytest.mark.parametrize("tied", [True, False])
def test_merged_weights_compute_what_the_adapted_model_computes(adapter, tied, tiny_model):
    model = adapted(tiny_model, adapter, tie_word_embeddings=tied)
    if adapter == "with a whole module":
        with torch.no_grad():
            model.get_base_model().model.norm.modules_to_save["default"].weight.add_(0.5)
    plain = tiny_model("qwen2", tie_word_embeddings=tied)
    ids = torch.randint(5, 39, (2, 9))
    with torch.no_grad():
        missing = plain.load_state_dict(dict(policy_weights(model)), strict=False).missing_keys
        assert missing == (["lm_head.weight"] if tied else [])
        torch.testing.assert_close(plain(ids).logits, model(ids).logits, rtol=1e-4, atol=1e-4)
        unadapted = tiny_model("qwen2", tie_word_embeddings=tied)(ids).logits
    assert not torch.allclose(plain(ids).logits, unadapted, atol=1e-2)


def test_bfloat16_weights_do_not_drift_over_a_hundred_pushes(tiny_model):
    model = adapted(tiny_model, "lora", torch.bfloat16)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    first = {name: weight.clone() for name, weight in policy_weights(model)}
    for _ in range(100):
        last = dict(policy_weights(model))
    assert all(torch.equal(first[name], last[name]) for name in first)
    assert all(torch.equal(before[name], parameter) for name, parameter in model.named_parameters())


def test_a_disabled_adapter_is_not_merged(tiny_model):
    model = adapted(tiny_model, "lora")
    plain = dict(policy_weights(tiny_model("qwen2")))
    with model.disable_adapter():
        found = dict(policy_weights(model))
    assert all(torch.equal(found[name], plain[name]) for name in plain)


def test_movement_is_seen_in_optimizer_steps_and_loaded_weights(tiny_model):
    model = tiny_model("qwen2")
    moved, versions = moved_since(model, None)
    assert moved
    assert moved_since(model, versions) == (False, versions)
    model(torch.tensor([[5, 6]])).logits.sum().backward()
    assert not moved_since(model, versions)[0]
    torch.optim.AdamW(model.parameters(), lr=1e-3).step()
    moved, versions = moved_since(model, versions)
    assert moved
    model.load_state_dict(model.state_dict())
    assert moved_since(model, versions)[0]
