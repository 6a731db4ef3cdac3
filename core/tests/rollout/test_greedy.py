"""Greedy completions are token for token those of `generate()`, for every shape of model and both decoders."""

from dataclasses import replace

import pytest
from beside_generate import GREEDY, PROMPTS, ours, reference
from plaudit.rollout.folding import covered
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator

FUSED = {"qwen2", "qwen2_sliding", "qwen3", "qwen3_sliding", "llama", "llama_biased", "llama3_rotary", "smollm2"}


def test_greedy_is_that_of_generate(tiny_model, variant, requests_of):
    model = tiny_model(variant)
    expected = [reference(model, prompt, max_new_tokens=24) for prompt in PROMPTS]
    assert len(set(expected)) >= 3  # the models do tell the prompts apart

    done = ours(model, requests_of(PROMPTS))

    assert [done[index].completion_ids for index in range(len(PROMPTS))] == expected


def test_equal_lengths_need_no_padding(tiny_model, variant, requests_of):
    model = tiny_model(variant)
    prompts = [(5, 9, 3), (4, 8, 15), (5, 9, 3)]

    done = ours(model, requests_of(prompts))

    assert [done[i].completion_ids for i in range(3)] == [reference(model, p, max_new_tokens=24) for p in prompts]


def test_which_models_decode_fused(tiny_model, variant):
    assert covered(tiny_model(variant)) == (variant in FUSED)


def test_an_altered_model_decodes_by_its_own_forward(tiny_model, requests_of):
    model = tiny_model("llama")
    model.model.layers[1].mlp.register_forward_hook(lambda module, inputs, output: output * 1.5)
    assert not covered(model)

    done = ours(model, requests_of(PROMPTS))

    assert [done[i].completion_ids for i in range(6)] == [reference(model, p, max_new_tokens=24) for p in PROMPTS]


def test_adapters_count(tiny_model, requests_of):
    from peft import LoraConfig, get_peft_model

    plain = tiny_model("qwen3")
    before = reference(plain, PROMPTS[3], max_new_tokens=24)
    config = LoraConfig(target_modules=["q_proj", "down_proj"], init_lora_weights=False, r=4)
    model = get_peft_model(plain, config).eval()

    done = ours(model, requests_of(PROMPTS))

    assert [done[i].completion_ids for i in range(6)] == [reference(model, p, max_new_tokens=24) for p in PROMPTS]
    assert done[3].completion_ids != before


def test_long_completions_outgrow_the_first_buffers(tiny_model, requests_of):
    for variant in ("qwen3_sliding", "gemma3_sliding"):
        model = tiny_model(variant, eos_token_id=None, max_position_embeddings=512)
        model.generation_config.eos_token_id = None
        done = ours(model, requests_of(PROMPTS[:2]), SamplingOptions(max_new_tokens=200, temperature=0))
        for index in range(2):
            assert done[index].completion_ids == reference(model, PROMPTS[index], max_new_tokens=200)
            assert done[index].finish_reason == "length"


def test_repetition_penalty_and_forbidden_tokens(tiny_model, requests_of):
    for variant in ("qwen2", "gemma2_sliding"):
        model = tiny_model(variant)
        extra = {"min_new_tokens": 6, "suppress_tokens": [3, 17, 22]}
        sampling = SamplingOptions(max_new_tokens=24, temperature=0, repetition_penalty=1.7, generation_kwargs=extra)

        done = ours(model, requests_of(PROMPTS), sampling)

        expected = [reference(model, p, max_new_tokens=24, repetition_penalty=1.7, **extra) for p in PROMPTS]
        assert [done[index].completion_ids for index in range(6)] == expected


def test_do_sample_false_is_greedy(tiny_model, requests_of):
    model = tiny_model("llama")
    sampling = SamplingOptions(max_new_tokens=24, temperature=0.7, top_k=3, generation_kwargs={"do_sample": False})
    assert ours(model, requests_of(PROMPTS), sampling) == ours(model, requests_of(PROMPTS))


@pytest.mark.parametrize("room", [None, 70])
@pytest.mark.parametrize("name", ["qwen3", "gemma3_sliding"])
def test_each_request_may_have_a_limit_of_its_own(tiny_model, requests_of, name, room):
    model = tiny_model(name)
    whole = ours(model, requests_of(PROMPTS))
    limits = [1, 3, None, 50, 7, len(whole[5].completion_ids)]
    requests = [replace(one, max_new_tokens=limit) for one, limit in zip(requests_of(PROMPTS), limits, strict=True)]
    generated = TransformersGenerator(model, max_cache_tokens=room).generate(requests, GREEDY)
    done = {one.index: one for one in generated}
    for index, limit in enumerate(limits):
        ids = whole[index].completion_ids
        kept = ids[: 24 if limit is None else limit]
        assert done[index].completion_ids == kept
        assert done[index].logprobs == pytest.approx(whole[index].logprobs[: len(kept)], abs=1e-4)
        assert done[index].finish_reason == (whole[index].finish_reason if kept == ids else "length")
    assert len({len(one.completion_ids) for one in done.values()}) >= 3
