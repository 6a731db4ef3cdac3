"""Packed rows give what padded ones give, for every model that says it can, and see far fewer tokens."""

from __future__ import annotations

import itertools
import random

import pytest
import torch
from heads import in_float64
from plaudit.grpo import logprobs
from plaudit.grpo.batch import Experience, collate
from plaudit.grpo.forward import packing
from plaudit.grpo.forward.packing import pack, packed_in_any_case
from plaudit.grpo.logprobs import TokenScorer

SIZES = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}
WINDOW = {"sliding_window": 4}
GEMMA = {"query_pre_attn_scalar": 16, **WINDOW}
# Family: class, further settings.
MODELS = {
    "Llama": ("Llama", {}),
    "Llama, tied": ("Llama", {"tie_word_embeddings": True}),
    "Qwen2": ("Qwen2", {}),
    "Qwen2 with windows": ("Qwen2", {"use_sliding_window": True, "max_window_layers": 1, **WINDOW}),
    "Qwen3": ("Qwen3", {}),
    "Mistral with windows": ("Mistral", WINDOW),
    "Gemma": ("Gemma", {}),
    "Gemma 3 with windows": ("Gemma3", GEMMA),
}
IN_FLOAT32 = {
    "Gemma 2 with windows and capped scores": ("Gemma2", {**GEMMA, "attn_implementation": "eager"}),
    "Phi-3": ("Phi3", {}),
    "SmolLM3": ("SmolLM3", {}),
    "Mixtral": ("Mixtral", {"num_local_experts": 4, "num_experts_per_tok": 2}),
}


def build(family, **more):
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, "Gemma3TextConfig" if family == "Gemma3" else f"{family}Config")
    return getattr(transformers, f"{family}ForCausalLM")(config(**{**SIZES, **more}))


def tokens(rng, count):
    return tuple(rng.randrange(2, 97) for _ in range(count))


def some_rows():
    """Prompts that three, two and one rollouts share; one of a single token; completions of one token and of none."""
    rng = random.Random(0)
    first, second, third = (tokens(rng, count) for count in (9, 5, 12))
    lengths = [(first, 3), (first, 10), (second, 1), (first, 1), (second, 7), (third, 20), ((4,), 2), (first, 0)]
    return [Experience(prompt, tokens(rng, count), (1,) * count) for prompt, count in lengths]


def gradients(model, stats):
    loss = (stats.logprobs.square() + 0.3 * stats.entropies).sum()
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def both_ways(model, shared, monkeypatch):
    """(statistics, gradients) of the padded and of the packed batch."""
    batch = collate(some_rows(), pad_token_id=0)
    plain = TokenScorer(model, temperature=0.9, packing=False)(model, batch, entropies="bonus")
    monkeypatch.setattr(logprobs, "pack", lambda batch: packed_in_any_case(batch, shared=shared))
    scorer = TokenScorer(model, temperature=0.9)
    assert scorer.packed is not None
    assert scorer.packed.ready
    packed = scorer(model, batch, entropies="bonus")
    return (plain, gradients(model, plain)), (packed, gradients(model, packed))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients_are_those_of_the_padded_batch(name, shared, monkeypatch):
    family, more = MODELS[name]
    if family == "Qwen2":
        more = {**more, "head_dim": 8}
    model = in_float64(build(family, **more)).train()
    (plain, wanted), (packed, found) = both_ways(model, shared, monkeypatch)
    for values, expected in ((packed.logprobs, plain.logprobs), (packed.entropies, plain.entropies)):
        torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(found, wanted, strict=True):
        assert (one - other).norm() <= 1e-12 * other.norm().clamp(min=1e-3)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", IN_FLOAT32)
def test_models_that_compute_in_float32(name, shared, monkeypatch):
    family, more = IN_FLOAT32[name]
    if family != "Gemma2":
        more = {**more, "head_dim": 8}
    (plain, wanted), (packed, found) = both_ways(build(family, **more), shared, monkeypatch)
    torch.testing.assert_close(packed.logprobs, plain.logprobs, rtol=1e-3, atol=1e-4)
    for one, other in zip(found, wanted, strict=True):
        if other is not None:
            assert (one - other).norm() <= 1e-4 * other.norm().clamp(min=0.1)


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("Bloom", {"n_layer": 2, "n_head": 2}),
        ("GptOss", {"num_local_experts": 2, "num_experts_per_tok": 1, "attn_implementation": "eager", **WINDOW}),
        ("Lfm2", {"layer_types": ["conv", "full_attention", "conv"]}),
        ("Qwen3", {"attn_implementation": "own"}),
    ],
)
def test_models_with_more_than_causal_attention_are_not_packed(family, more):
    if more.get("attn_implementation") == "own":
        from transformers import AttentionInterface
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        AttentionInterface.register("own", sdpa_attention_forward)
    model = build(family, **more)
    scorer = TokenScorer(model, temperature=1.0)
    assert scorer.packed is not None
    assert not scorer.packed.usable
    found = scorer(model, collate(some_rows(), pad_token_id=0)).logprobs
    assert found.isfinite().all()


def test_layers_that_are_computed_again_in_the_backward_pass_are_not_packed():
    model = build("Qwen3")
    scorer = TokenScorer(model, temperature=1.0)
    assert scorer.packed is not None
    assert scorer.packed.ready
    model.gradient_checkpointing_enable()
    assert not scorer.packed.ready
    model.gradient_checkpointing_disable()
    assert scorer.packed.ready


def test_attention_is_as_it_was_after_a_failed_forward():
    model = build("Qwen3")
    scorer = TokenScorer(model, temperature=1.0)
    bad = collate([Experience((10_000,) * 64, (5, 6), (1, 1)) for _ in range(4)], pad_token_id=0)
    assert pack(bad) is not None
    with pytest.raises(IndexError):
        scorer(model, bad)
    assert model.config._attn_implementation == "sdpa"


def batch_of(*rows):
    """A batch of (prompt name, prompt length, completion length)."""
    rng = random.Random(1)
    prompts = {name: tokens(rng, length) for name, length, _ in rows}
    return collate(
        [Experience(prompts[name], tokens(rng, count), (1,) * count) for name, _, count in rows], pad_token_id=0
    )


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        # A long prompt, eight short answers: the prompt once.
        ([("a", 1024, 16)] * 8, 1024 + 8 * 15),
        # One long answer, seven short ones.
        ([("a", 64, 512)] + [("a", 64, n) for n in (64, 50, 40, 30, 20, 64, 16)], 64 + 511 + 7 * 63),
        # The same without anything in common.
        ([("a", 64, 512)] + [(name, 64, 32) for name in "bcdefgh"], 575 + 7 * 95),
        # Two groups of two.
        ([("a", 200, 16)] * 2 + [("b", 100, 16)] * 2, 300 + 4 * 15),
    ],
)
def test_the_model_sees_few_tokens(rows, most):
    packed = pack(batch_of(*rows))
    assert packed is not None
    assert packed.input_ids.shape[1] <= most
    assert packed.position_ids.max() < max(prompt + completion for _, prompt, completion in rows)


@pytest.mark.parametrize(
    "rows", [[(name, 192, 64) for name in "abcdefgh"], [("a", 4, 8)] * 4, [("a", 8, 32)], [("a", 5, 0)]]
)
def test_where_little_is_saved_the_batch_stays_padded(rows):
    assert pack(batch_of(*rows)) is None


def test_blocks_cost_least(monkeypatch):
    """Against every way of cutting the sorted lengths."""
    monkeypatch.setattr(packing, "BLOCK_COST", 10)
    rng = random.Random(3)
    for _ in range(20):
        lengths = sorted(rng.choices([3, 4, 7, 8, 20, 21, 40], k=7))
        rows = [(str(place), length, 1) for place, length in enumerate(lengths)]
        packed = packed_in_any_case(batch_of(*rows), shared=False)
        found = sum(block.rows * block.width + 10 for block in packed.blocks)
        cuts = [[place for place in range(1, 7) if mask >> place & 1] for mask in range(0, 128, 2)]
        assert found == min(cost(lengths, [0, *cut, 7]) for cut in cuts)


def cost(lengths, edges):
    return sum((end - begin) * lengths[end - 1] + 10 for begin, end in itertools.pairwise(edges))
