"""Adapters, quantised policies and models that others patched."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from plaudit.errors import UsageError
from tiny_policy import lora, make_model

from runs import make_trainer, metrics_of


@pytest.mark.skipif(find_spec("bitsandbytes") is not None, reason="bitsandbytes is there")
@pytest.mark.parametrize("given", [{"load_in_4bit": True}, {"load_in_8bit": True}, "object"])
def test_quantisation_without_its_library_says_what_to_install(given, tmp_path, saved):
    from types import SimpleNamespace

    config = SimpleNamespace(load_in_4bit=True, load_in_8bit=False) if given == "object" else given
    with pytest.raises(UsageError, match=r"need bitsandbytes.*pip install bitsandbytes"):
        make_trainer(tmp_path / "run", model=saved, quantization_config=config, peft_config=lora())
    with pytest.raises(UsageError, match="keep the trainer's"):
        make_trainer(
            tmp_path / "run", model=saved, quantization_config=config, model_init_kwargs={"quantization_config": given}
        )
    with pytest.raises(UsageError, match="optim='adamw_8bit' needs bitsandbytes"):
        make_trainer(tmp_path / "run", model=saved, optim="adamw_8bit")


ADAPTERS = {
    "LoRA on every projection": {"target_modules": "all-linear", "lora_dropout": 0.1},
    "DoRA": {"use_dora": True},
    "rank-stabilised": {"use_rslora": True},
    "with a trained head": {"modules_to_save": ["lm_head"]},
    "on the head": {"target_modules": ["q_proj", "lm_head"]},
}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("case", ADAPTERS)
def test_adapters_learn_and_nothing_else_does(case, checkpointing, tmp_path):
    model = make_model(tied=False)
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer = make_trainer(
        tmp_path, model=model, peft_config=lora(**ADAPTERS[case]), gradient_checkpointing=checkpointing, max_steps=3
    )
    start = {name: value.detach().clone() for name, value in trainer.model.named_parameters() if value.requires_grad}
    trainer.train()
    now = dict(trainer.model.named_parameters())
    moved = {name for name, value in start.items() if not torch.equal(value, now[name])}
    assert any("lora_B" in name for name in moved)
    assert ("modules_to_save" in case or "modules_to_save" not in ADAPTERS[case]) or any("lm_head" in n for n in moved)
    if case == "DoRA":
        assert any("lora_magnitude_vector" in name for name in moved)
    for name, value in now.items():
        plain = name.removeprefix("base_model.model.").replace(".base_layer", "").replace(".original_module", "")
        if not value.requires_grad and plain in before:
            assert torch.equal(value, before[plain]), name
    assert "loss" in metrics_of(tmp_path)[0]


def test_a_model_that_unsloth_patched_trains(tmp_path):
    """Such a model comes with its adapter and switches of its own, and multiplies single tokens past its head."""
    from types import MethodType

    from peft import get_peft_model
    from transformers.modeling_outputs import CausalLMOutputWithPast

    model = get_peft_model(make_model(tied=False), lora(init_lora_weights=False))
    base = model.get_base_model()
    plain = type(base).forward

    def fast(self, input_ids=None, **more):
        if input_ids.numel() > 1:
            return plain(self, input_ids=input_ids, **more)
        more = {name: value for name, value in more.items() if name != "logits_to_keep"}
        found = self.model(input_ids=input_ids, **more)
        return CausalLMOutputWithPast(logits=found.last_hidden_state @ self.lm_head.weight.t())

    base.forward = MethodType(fast, base)
    model.for_training = model.for_inference = lambda *args, **more: model

    def now_and_then(completions, trainer_state, **columns):
        return [float(trainer_state.global_step > 0 and len(text) % 2) for text in completions]

    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer = make_trainer(tmp_path, now_and_then, model=model, max_steps=4, beta=0.0, gradient_checkpointing=True)
    assert trainer.token_scorer.fused
    trainer.train()
    moved = {name for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert moved
    assert all("lora_" in name for name in moved)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [4, 8])
def test_a_quantised_policy_learns_through_its_adapter(bits, tmp_path):
    pytest.importorskip("bitsandbytes")
    from transformers import BitsAndBytesConfig

    shape = {"hidden_size": 64, "intermediate_size": 64, "head_dim": 32}
    make_model(tied=False, **shape).save_pretrained(tmp_path / "model")
    quantization = BitsAndBytesConfig(
        load_in_4bit=bits == 4, load_in_8bit=bits == 8, bnb_4bit_compute_dtype=torch.bfloat16
    )
    options = {"model_init_kwargs": {"dtype": "bfloat16"}, "quantization_config": quantization}
    given = {"model": str(tmp_path / "model"), **options}
    with pytest.raises(UsageError, match="quantised and cannot be trained; give peft_config"):
        make_trainer(tmp_path / "run", **given)
    trainer = make_trainer(tmp_path / "run", peft_config=lora(use_dora=bits == 4), beta=0.1, **given)
    trainable = {n: p for n, p in trainer.model.named_parameters() if p.requires_grad}
    assert {p.dtype for n, p in trainable.items() if "magnitude" not in n} == {torch.bfloat16}
    trainer.train()
    assert any(p.abs().max() > 0 for n, p in trainable.items() if "lora_B" in n)


@pytest.mark.slow
def test_quantisation_as_a_run_file_asks_for_it(tmp_path):
    pytest.importorskip("bitsandbytes")
    make_model(tied=False, hidden_size=64, intermediate_size=64, head_dim=32).save_pretrained(tmp_path / "model")
    options = {"dtype": "bfloat16", "quantization_config": {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}}
    trainer = make_trainer(
        tmp_path / "run", model=str(tmp_path / "model"), model_init_kwargs=options, peft_config=lora()
    )
    trainer.train()
    layer = trainer.model.get_base_model().model.layers[0].self_attn.q_proj.base_layer
    assert type(layer).__name__ == "Linear4bit"
    assert any(p.abs().max() > 0 for n, p in trainer.model.named_parameters() if "lora_B" in n)


@pytest.mark.slow
def test_an_eight_bit_optimizer(tmp_path):
    pytest.importorskip("bitsandbytes")
    before = make_model()
    trainer = make_trainer(tmp_path, optim="adamw_8bit")
    trainer.train()
    assert "bitsandbytes" in type(trainer.optimizer.optimizer).__module__
    assert not torch.equal(trainer.model.model.norm.weight, before.model.norm.weight)
