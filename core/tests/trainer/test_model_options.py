"""How the policy is loaded and changed before it trains: precision, heads, dropout, adapters, quantisation, kernels."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
from plaudit.errors import UsageError
from plaudit.grpo import GRPOConfig
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.forward.precise_head import cast_head
from plaudit.grpo.logprobs import TokenScorer
from plaudit.grpo.policy.models import load_model
from tiny_policy import lora, make_model

from runs import make_trainer

ROWS = [Experience((3, 4, 5), (6, 7, 8, 1), (1, 1, 1, 1)), Experience((9,), (10, 1), (1, 1))]


@pytest.mark.parametrize("autocast", [False, True], ids=["bfloat16 weights", "bfloat16 autocast"])
def test_a_float32_head_computes_in_float32(autocast):
    model = make_model(tied=False, dtype=torch.float32 if autocast else torch.bfloat16)
    plain = TokenScorer(model, temperature=0.7, packing=False)
    batch = collate(ROWS, pad_token_id=0)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        before = plain(model, batch).logprobs
        cast_head(model)
        after = TokenScorer(model, temperature=0.7, packing=False)(model, batch).logprobs
        logits = model(batch.input_ids).logits
        with torch.autocast("cpu", enabled=False) if not autocast else torch.autocast("cpu", torch.bfloat16):
            hidden = model.model(batch.input_ids).last_hidden_state
    assert logits.dtype == after.dtype == torch.float32
    exact = hidden.float() @ model.lm_head.weight.t()
    torch.testing.assert_close(logits, exact, rtol=1e-5, atol=1e-5)
    expected = (exact / 0.7).log_softmax(-1).flatten(0, 1)[batch.positions].gather(1, batch.targets[:, None])[:, 0]
    torch.testing.assert_close(after.flatten()[batch.slots], expected, rtol=1e-5, atol=1e-5)
    assert (before.float() - after).abs().max() > 1e-3  # else nothing would be gained


def test_training_with_a_float32_head(tmp_path, saved):
    options = {"model_init_kwargs": {"dtype": "bfloat16"}, "cast_lm_head_to_fp32": True, "beta": 0.1}
    trainer = make_trainer(tmp_path / "run", model=saved, **options)
    trainer.train()
    assert trainer.model.lm_head.weight.dtype == torch.float32
    assert trainer.model.model.norm.weight.dtype == torch.bfloat16
    assert trainer.reference.model.lm_head.weight.dtype == torch.float32
    again = load_model(_saved_again(trainer, tmp_path), {"dtype": "auto"})
    assert torch.equal(again.lm_head.weight, trainer.model.lm_head.weight.to(again.lm_head.weight.dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_a_head_that_shares_its_weight_with_the_embeddings(dtype, tmp_path):
    model = make_model(tied=True, dtype=dtype)
    trainer = make_trainer(tmp_path, model=model, cast_lm_head_to_fp32=True, beta=0.1)
    trainer.train()
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.lm_head.weight.dtype == torch.float32
    assert model.model.norm.weight.dtype == dtype
    assert model.model.embed_tokens(torch.tensor([[3]])).dtype == dtype
    assert model(torch.tensor([[3, 4]])).logits.dtype == torch.float32


def _saved_again(trainer, tmp_path):
    trainer.save_model(str(tmp_path / "saved"))
    return str(tmp_path / "saved")


REFUSED = {
    "adapter on the head": (
        {"cast_lm_head_to_fp32": True, "tied": False, "peft_config": lora(target_modules=["lm_head"])},
        "the head is a Linear, not a plain linear layer; take it out of",
    ),
    "trained copy of the head": (
        {"cast_lm_head_to_fp32": True, "tied": False, "peft_config": lora(modules_to_save=["lm_head"])},
        "the head is a ModulesToSaveWrapper",
    ),
    "liger": ({"use_liger_kernel": True}, "use_liger_kernel needs liger-kernel; pip install liger-kernel"),
    "quantized object": ({"quantization_config": {"load_in_4bit": True}}, "applies to a model given as a path"),
    "adapter twice": ({"adapted": True, "peft_config": lora()}, "already has an adapter"),
    "no adapter config": ({"peft_config": {"r": 4}}, "peft_config is a dict; expected e.g. peft.LoraConfig"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_done_to_a_model_is_refused(case, tmp_path):
    from peft import get_peft_model

    options, message = REFUSED[case]
    options = dict(options)
    model = make_model(tied=options.pop("tied", True))
    if options.pop("adapted", False):
        model = get_peft_model(model, lora())
    if case == "liger" and find_spec("liger_kernel"):
        message = "needs a GPU"
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path, model=model, **options)


LOADING = {
    "dtype": ({"dtype": "floaty"}, r"dtype is 'floaty' in model_init_kwargs; it must be float32"),
    "dtype of another kind": ({"dtype": "nn"}, r"dtype is 'nn'"),
    "attention": ({"attn_implementation": "flash_attention_2"}, "cannot|can be loaded"),
    "attention typo": ({"attn_implementation": "quick"}, "can be loaded"),
}


@pytest.mark.parametrize("case", LOADING)
def test_what_a_model_cannot_be_loaded_with_is_named(case, tmp_path, saved):
    options, message = LOADING[case]
    with pytest.raises(UsageError, match=message):
        make_trainer(tmp_path / "run", model=saved, model_init_kwargs=options)


@pytest.mark.parametrize(
    ("given", "dtype", "attention"),
    [
        (None, torch.float32, "sdpa"),
        ({"dtype": "bfloat16", "attn_implementation": "eager"}, torch.bfloat16, "eager"),
        ('{"dtype": "bfloat16"}', torch.bfloat16, "sdpa"),
        ({"torch_dtype": torch.bfloat16}, torch.bfloat16, "sdpa"),
        ({"dtype": "auto"}, torch.float32, "sdpa"),
    ],
)
def test_model_init_kwargs(given, dtype, attention, tmp_path, saved):
    config = GRPOConfig(str(tmp_path / "run"), use_cpu=True, report_to=[], model_init_kwargs=given)
    model = load_model(saved, config.model_init_kwargs)
    assert (model.dtype, model.config._attn_implementation) == (dtype, attention)


def test_several_processes_hold_a_model_each(saved):
    with pytest.warns(UserWarning, match="device_map is left out"):
        model = load_model(saved, {"device_map": "auto"}, distributed=True)
    assert not hasattr(model, "hf_device_map")


def test_disable_dropout(tmp_path):
    for disabled in (False, True):
        model = make_model(attention_dropout=0.5)
        trainer = make_trainer(tmp_path / str(disabled), model=model, disable_dropout=disabled)
        rates = {layer.self_attn.attention_dropout for layer in trainer.model.model.layers}
        assert rates == {0.0 if disabled else 0.5}
