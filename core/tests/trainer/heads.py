"""Tiny models in float64 that differ in their head, and in what they make of its logits."""

from __future__ import annotations

from types import MethodType

import torch
from tiny_policy import make_model
from torch import nn

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}
VOCABULARY = make_model().config.vocab_size


class ScaledHead(nn.Linear):
    """A head with a forward of its own, as Dory's: each logit has a scale that is learnt."""

    def __init__(self, size):
        super().__init__(size, VOCABULARY, bias=False)
        self.scales = nn.Parameter(torch.linspace(0.5, 2.0, VOCABULARY))

    def forward(self, hidden):
        return super().forward(hidden) * self.scales


def in_float64(model):
    """The model in float64, and its norms too, which transformers computes in float32 whatever their input."""
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            eps = module.eps if hasattr(module, "eps") else module.variance_epsilon
            module.forward = exact_norm(module, eps, 1.0 if name.startswith("Gemma") else 0.0)
    return model.double()


def exact_norm(module, eps, offset):
    return lambda x: (offset + module.weight) * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def untied():
    return make_model(dtype=torch.float64, tied=False)


def with_bias():
    model = untied()
    model.lm_head = nn.Linear(model.lm_head.in_features, VOCABULARY, bias=True).double()
    return model


def with_scales():
    model = untied()
    model.lm_head = ScaledHead(model.lm_head.in_features).double()
    return model


def family(name, **more):
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**{**SIZES, "vocab_size": VOCABULARY, **more})
    return getattr(transformers, f"{name}ForCausalLM")(config).double()


def adapted(tied=False, **more):
    """With an adapter whose weights are drawn at random, so that it has a say."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    model = make_model(dtype=torch.float64, tied=tied)
    return get_peft_model(model, LoraConfig(r=4, init_lora_weights=False, task_type="CAUSAL_LM", **more)).double()


class OtherWeight(nn.Parameter):
    """A tensor of another kind, as quantised weights are, of which only products in autograd are known."""


def with_other_weight():
    model = untied()
    model.lm_head.weight = OtherWeight(model.lm_head.weight.data)
    return model


def with_hook():
    """A head whose forward was replaced on the instance, as accelerate's hooks do."""
    model = untied()
    plain = type(model.lm_head).forward
    model.lm_head.forward = MethodType(lambda self, hidden: plain(self, hidden) * 0.5, model.lm_head)
    return model


def with_tail(tail):
    """A model that does something of its own with the logits."""
    model = untied()
    plain = type(model).forward

    def forward(self, *args, **more):
        found = plain(self, *args, **more)
        found.logits = tail(self, found.logits)
        return found

    model.forward = MethodType(forward, model)
    return model


def learnt_scale():
    def tail(self, logits):
        return logits * self.temper

    model = with_tail(tail)
    model.temper = nn.Parameter(torch.tensor(0.8, dtype=torch.float64))
    return model


def without_tokens(value):
    """A model that never writes the last 20 tokens, whose logits it sets to `value` in place, as Chameleon does."""

    def tail(self, logits):
        logits[..., -20:] = value
        return logits

    return with_tail(tail)


HEADS = {
    "tied": lambda: make_model(dtype=torch.float64),
    "untied": untied,
    "bias": with_bias,
    "scales": with_scales,
    "hook": with_hook,
    "another kind of weight": with_other_weight,
    "adapter": lambda: adapted(target_modules=["q_proj", "lm_head"]),
    "DoRA": lambda: adapted(target_modules=["lm_head"], use_dora=True),
    "adapter and its bias": lambda: adapted(target_modules=["lm_head"], lora_bias=True),
    "adapter on a tied head": lambda: adapted(True, target_modules=["lm_head"]),
    "saved beside an adapter": lambda: adapted(target_modules=["q_proj"], modules_to_save=["norm", "lm_head"]),
    "learnt tokens": lambda: adapted(True, target_modules=["q_proj"], trainable_token_indices=[3, 8, 9]),
    "tied adapters": lambda: adapted(True, target_modules=["embed_tokens"], ensure_weight_tying=True),
    "Gemma 2 caps": lambda: family("Gemma2", final_logit_softcapping=3.0, attn_implementation="eager"),
    "Cohere scales": lambda: family("Cohere", logit_scale=0.25),
    "Granite divides": lambda: family("Granite", logits_scaling=3.0, tie_word_embeddings=False),
    "scaled and capped": lambda: with_tail(lambda self, logits: 5 * torch.tanh(0.7 * logits / 5)),
    "another tail": lambda: with_tail(lambda self, logits: logits + 0.1 * logits.sin()),
    "a learnt scale": learnt_scale,
    "fewer logits": lambda: with_tail(lambda self, logits: logits[..., :-20]),
}
IN_FLOAT32 = {"Gemma 2 caps", "Cohere scales", "Granite divides"}
# What the model does after its head is not known, so all logits of the completions are there at once.
WHOLE = {"another tail", "a learnt scale", "fewer logits"}
