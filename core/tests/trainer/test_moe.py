"""Mixture-of-experts models: their load-balancing loss, beside TRL and by hand."""

from __future__ import annotations

import warnings

import pytest
import torch
from plaudit.errors import UsageError
from side_by_side import differences, run_plaudit, run_trl
from tiny_policy import ALPHABET, make_tokenizer

from runs import make_trainer, metrics_of

SHAPE = {
    "vocab_size": len(ALPHABET) + 5,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 96,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": None,
    "initializer_range": 0.3,
}
FAMILIES = {
    "Mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8},
    "Qwen2Moe": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 12,
        "shared_expert_intermediate_size": 12,
    },
    "Qwen3Moe": {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "head_dim": 8},
}


def make_experts(family="Mixtral", *, dtype=torch.float32, **more):
    import transformers

    config = getattr(transformers, f"{family}Config")(**{**SHAPE, **FAMILIES[family], **more})
    torch.manual_seed(0)
    return getattr(transformers, f"{family}ForCausalLM")(config).to(dtype)


# The grouped matrix product of experts has no float64.
PRECISE = {"dtype": "auto", "experts_implementation": "eager"}

GRID = {
    "own coefficient": ("Mixtral", {"router_aux_loss_coef": None}),
    "large": ("Qwen2Moe", {"router_aux_loss_coef": 0.5, "beta": 0.1, "num_iterations": 2}),
    "off": ("Mixtral", {"router_aux_loss_coef": 0.0}),
    "accumulated": (
        "Qwen3Moe",
        {"router_aux_loss_coef": 0.2, "gradient_accumulation_steps": 2, "per_device_train_batch_size": 4},
    ),
    "truncated": ("Mixtral", {"router_aux_loss_coef": 0.3, "mask_truncated_completions": True, "loss_type": "grpo"}),
    "evaluated": ("Qwen2Moe", {"router_aux_loss_coef": 0.1, "evaluate": True, "num_generations_eval": 2}),
}
QUICK = {"large", "truncated"}


@pytest.mark.peer
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in GRID])
def test_training_equals_trl(name, tmp_path):
    family, options = GRID[name]
    make_experts(family, dtype=torch.float64, router_aux_loss_coef=0.05).save_pretrained(tmp_path / "model")
    options = {"model_init_kwargs": PRECISE, "max_steps": 3, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run_trl(str(tmp_path / "model"), make_tokenizer(), tmp_path / "trl", **options)
        ours = run_plaudit(str(tmp_path / "model"), make_tokenizer(), tmp_path / "ours", **options)
    problems = [differences(one, other) for one, other in zip(theirs.logs, ours.logs, strict=True)]
    assert not any(problems), problems
    assert differences(theirs.evaluation, ours.evaluation) == {}
    assert ("aux_loss" in ours.logs[0]) == (name != "off")
    for parameter, value in theirs.weights.items():
        scale = value.abs().max().item()
        torch.testing.assert_close(ours.weights[parameter], value, rtol=1e-5, atol=1e-5 * scale)


def test_the_router_moves_where_nothing_is_rewarded(tmp_path):
    """All advantages are 0, so the load-balancing loss alone teaches; it must not be skipped with those rows."""

    def same(completions, **kwargs):
        return [1.0] * len(completions)

    moved = {}
    for coefficient in (0.0, 1.0):
        model = make_experts()
        before = {name: value.detach().clone() for name, value in model.named_parameters()}
        folder = tmp_path / str(coefficient)
        make_trainer(folder, same, model=model, router_aux_loss_coef=coefficient, weight_decay=0.0).train()
        moved[coefficient] = {n for n, value in model.named_parameters() if not torch.equal(value, before[n])}
    assert moved[0.0] == set()
    assert any("gate.weight" in name for name in moved[1.0])
    lines = [line for line in metrics_of(tmp_path / "1.0") if "loss" in line]
    # With an even load it is the number of experts that a token chooses, 2; not much less on any batch.
    assert all(line["aux_loss"] > 1.9 for line in lines)
    assert lines[0]["loss"] == pytest.approx(lines[0]["aux_loss"], rel=1e-5)


def test_adapters_and_a_config_that_returns_router_logits_by_itself(tmp_path):
    from peft import LoraConfig

    model = make_experts("Qwen2Moe", output_router_logits=True)
    adapter = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
    make_trainer(tmp_path, model=model, peft_config=adapter, router_aux_loss_coef=0.1).train()
    assert metrics_of(tmp_path)[0]["aux_loss"] > 1.9


def test_a_dense_model_has_no_load_to_balance(tmp_path):
    with pytest.raises(UsageError, match=r"router_aux_loss_coef is 0.1, but Qwen3ForCausalLM is no mixture"):
        make_trainer(tmp_path, router_aux_loss_coef=0.1)
    make_trainer(tmp_path, router_aux_loss_coef=0.0).train()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_resumed_run_loads_experts_that_are_saved_under_other_names(family, tmp_path):
    options = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1, "router_aux_loss_coef": 0.1}
    whole = make_trainer(tmp_path, model=make_experts(family), **options)
    whole.train()
    rest = make_trainer(tmp_path, model=make_experts(family), **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    for (name, one), other in zip(whole.model.named_parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other), name
