"""Caches by their names: what stop strings and limits do with each, which models they fit, and what is missing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import gcd

import pytest
import torch
from beside_generate import GREEDY, PROMPTS, ours, reference
from plaudit import UsageError
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator
from test_decoding import Letters

FULL = ["qwen2", "qwen3", "llama", "llama_biased", "smollm2", "gemma"]


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_stop_strings_end_at_the_token_that_completes_them(tiny_model, requests_of, cache):
    model = tiny_model("qwen3", vocab_size=12, initializer_range=0.1)
    sampling = SamplingOptions(max_new_tokens=40, seed=2)
    free = ours(model, requests_of([(5, 9, 3), (7,)] * 20), sampling)
    texts = [text_of(one) for one in free.values()]
    parts = [Counter(text[i : i + size] for text in texts for i in range(len(text) - size + 1)) for size in (2, 3)]
    stops = tuple(counted.most_common(1)[0][0] for counted in parts)
    asked = replace(sampling, stop=stops)
    stopped = ours(model, requests_of([(5, 9, 3), (7,)] * 20), asked, Letters(), cache_implementation=cache)
    ends = set()
    for index, one in stopped.items():
        whole = text_of(free[index])
        first = min((whole.index(stop) + len(stop) for stop in stops if stop in whole), default=None)
        assert text_of(one) == whole[:first]
        assert first is None or one.finish_reason == "stop"
        ends.add(first)
    assert len(ends) > 3


def text_of(generated):
    return Letters().batch_decode(torch.tensor([generated.completion_ids]), skip_special_tokens=False)[0]


@pytest.mark.parametrize("cache", [None, "dynamic", "static"])
@pytest.mark.parametrize("name", ["qwen2_sliding", "gemma3_sliding"])
def test_one_token(tiny_model, requests_of, cache, name):
    model = tiny_model(name)
    done = ours(model, requests_of(PROMPTS), replace(GREEDY, max_new_tokens=1), cache_implementation=cache)
    assert [done[i].completion_ids for i in range(6)] == [reference(model, p, max_new_tokens=1) for p in PROMPTS]


@pytest.mark.parametrize("cache", [None, "dynamic", "static"])
def test_a_prompt_as_long_as_the_context(tiny_model, requests_of, cache):
    """As in `generate()`: rotary positions go on."""
    model = tiny_model("llama", max_position_embeddings=32)
    prompts = [tuple(range(2, 34)), (5, 9)]
    done = ours(model, requests_of(prompts), replace(GREEDY, max_new_tokens=6), cache_implementation=cache)
    assert [done[i].completion_ids for i in range(2)] == [reference(model, p, max_new_tokens=6) for p in prompts]


@pytest.mark.parametrize("cache", [None, "static"])
def test_padding_that_is_the_end_token_or_missing(tiny_model, requests_of, cache):
    for pad in (1, None):
        model = tiny_model("qwen2", pad_token_id=pad)
        prompts = [(5, 1, 3), (1,), (4, 8, 15, 16, 23, 1, 8)]  # end tokens inside of prompts end nothing
        done = ours(model, requests_of(prompts), cache_implementation=cache)
        expected = [reference(model, p, max_new_tokens=24, pad_token_id=0) for p in prompts]
        assert [done[i].completion_ids for i in range(3)] == expected


def test_quantized_needs_what_is_missing(tiny_model, requests_of, monkeypatch):
    monkeypatch.setattr("transformers.utils.is_optimum_quanto_available", lambda: False)
    with pytest.raises(UsageError, match="pip install optimum-quanto"):
        TransformersGenerator(tiny_model("qwen2"), cache_implementation="quantized")


@pytest.mark.parametrize("name", ["qwen3_sliding", "gemma2_sliding", "mistral_sliding"])
def test_quantized_is_for_full_attention(tiny_model, name):
    with pytest.raises(UsageError, match=r"layers of type sliding_attention\. Use 'dynamic'"):
        TransformersGenerator(tiny_model(name), cache_implementation="quantized")


def test_an_unknown_cache_is_refused(tiny_model):
    with pytest.raises(UsageError, match="'offloaded'; it must be one of dynamic, static, quantized"):
        TransformersGenerator(tiny_model("qwen2"), cache_implementation="offloaded")


@pytest.mark.parametrize("name", FULL)
def test_quantized_writes_what_generate_does_with_it(tiny_model, requests_of, name):
    """One prompt at a time, for padding is quantized with what it stands beside."""
    pytest.importorskip("optimum.quanto", reason="needs optimum-quanto")
    model = tiny_model(name)
    attention = model.model.layers[0].self_attn
    settings = {"backend": "quanto", "q_group_size": gcd(64, attention.k_proj.out_features)}  # for any length of prompt
    for prompt in PROMPTS[2:4]:
        generator = TransformersGenerator(model, cache_implementation="quantized")
        assert not generator.exact
        (done,) = generator.generate(requests_of([prompt]), replace(GREEDY, max_new_tokens=80))
        expected = reference(model, prompt, max_new_tokens=80, cache_implementation="quantized", cache_config=settings)
        assert done.completion_ids == expected
