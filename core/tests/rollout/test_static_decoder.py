"""Static shapes: the completions of `generate()`, in few shapes, by steps that read and write the same tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from beside_generate import GREEDY, PROMPTS, ours, reference
from plaudit.rollout.protocol import Request, SamplingOptions
from plaudit.rollout.static_decoder import StaticDecoder, forward_step
from plaudit.rollout.transformers_generator import TransformersGenerator

LONG = replace(GREEDY, max_new_tokens=70)  # more than the first columns have room for


@pytest.fixture
def static(monkeypatch):
    """Decodes statically and keeps each decoder that was made; `capture` as StaticDecoder takes it."""
    made = []

    def written(model, requests, sampling=GREEDY, tokenizer=None, capture=None):
        class Watched(StaticDecoder):
            def __init__(self, *given, **named):
                super().__init__(*given, **{**named, "capture": capture})
                self.shapes = []
                made.append(self)

            def step(self, tokens):
                logits = super().step(tokens)
                self.shapes.append((self.width, self._layers[0].max_cache_len))
                return logits

        monkeypatch.setattr("plaudit.rollout.transformers_generator.StaticDecoder", Watched)
        return ours(model, requests, sampling, tokenizer, cache_implementation="static")

    written.made = made
    return written


@pytest.mark.parametrize("prompts", [PROMPTS, [(5, 9, 3), (4, 8, 15), (5, 9, 3)]], ids=["padded", "equal"])
def test_greedy_is_that_of_generate_beyond_the_first_columns(tiny_model, variant, requests_of, static, prompts):
    model = tiny_model(variant)
    done = static(model, requests_of(prompts), LONG)
    expected = {prompt: reference(model, prompt, max_new_tokens=70) for prompt in set(prompts)}
    assert [done[index].completion_ids for index in range(len(prompts))] == [expected[prompt] for prompt in prompts]


def test_a_step_has_few_shapes_however_rows_leave(tiny_model, static):
    """Rows leave one by one over 200 tokens: at most log2(W) + 1 widths, and columns grow by half."""
    model = tiny_model("qwen3_sliding", eos_token_id=None, max_position_embeddings=512)
    model.generation_config.eos_token_id = None
    requests = [Request(index, PROMPTS[index % 6], max_new_tokens=4 + 12 * index) for index in range(17)]

    done = static(model, requests, replace(GREEDY, max_new_tokens=400))

    (decoder,) = static.made
    widths, columns = ({shape[place] for shape in decoder.shapes} for place in (0, 1))
    assert len(decoder.shapes) == 4 + 12 * 16 - 1
    assert len(set(decoder.shapes)) <= 9
    assert (max(widths), min(widths)) == (17, 1)
    assert len(columns) >= 3
    whole = {prompt: reference(model, prompt, max_new_tokens=200) for prompt in set(PROMPTS)}
    for request in requests:
        assert done[request.index].completion_ids == whole[request.prompt_ids][: request.max_new_tokens]


@pytest.mark.parametrize("name", ["qwen2", "gemma3_sliding"])
def test_a_captured_step_has_the_same_tensors_each_time(tiny_model, requests_of, static, name):
    """A captured step replays what it did to the tensors of its capture, so nothing may move until the next one."""
    model, repeats = tiny_model(name), []

    def capture(step):
        model_, inputs = step.args
        before = places_of(inputs)
        step()  # as a warm-up does
        seen = []

        def replay():
            assert places_of(inputs) == before
            seen.append(int(inputs["position_ids"].max()))
            return forward_step(model_, inputs)

        repeats.append(seen)
        return replay

    done = static(model, requests_of(PROMPTS), LONG, capture=capture)

    whole = {prompt: reference(model, prompt, max_new_tokens=70) for prompt in set(PROMPTS)}
    assert [done[index].completion_ids for index in range(6)] == [whole[prompt] for prompt in PROMPTS]
    assert len(repeats) == len(set(static.made[0].shapes)) > 1
    assert max(map(len, repeats)) > 10
    for seen in repeats:
        assert seen == list(range(seen[0], seen[0] + len(seen)))


def places_of(inputs):
    """Where in memory everything is that a step reads or writes."""
    cache = next(value for value in inputs.values() if hasattr(value, "layers"))
    states = [part for layer in cache.layers for part in (layer.keys, layer.values, layer.cumulative_length)]
    given = [inputs[name] for name in ("input_ids", "position_ids", "attention_mask") if inputs[name] is not None]
    return [tensor.data_ptr() for tensor in [*states, *given]]


@pytest.mark.parametrize("room", [40, 110])
def test_any_room_and_a_limit_for_each_request(tiny_model, requests_of, static, room):
    model = tiny_model("gemma2_sliding")
    limits = [1, 3, None, 50, 7, 24]
    requests = [replace(one, max_new_tokens=limit) for one, limit in zip(requests_of(PROMPTS), limits, strict=True)]
    whole = ours(model, requests_of(PROMPTS))
    generator = TransformersGenerator(model, cache_implementation="static", max_cache_tokens=room)
    for one in generator.generate(requests, GREEDY):
        assert one.completion_ids == whole[one.index].completion_ids[: limits[one.index] or 24]


@pytest.mark.parametrize("name", ["qwen3", "mistral_sliding"])
def test_draws_and_their_logprobs_are_those_of_the_other_decoders(tiny_model, requests_of, static, name):
    model = tiny_model(name, initializer_range=0.1)
    sampling = SamplingOptions(max_new_tokens=80, temperature=0.8, seed=4)
    done, expected = static(model, requests_of(PROMPTS * 3), sampling), ours(model, requests_of(PROMPTS * 3), sampling)
    assert len({len(one.completion_ids) for one in done.values()}) > 4
    for index, one in expected.items():
        assert done[index].completion_ids == one.completion_ids
        assert done[index].logprobs == pytest.approx(one.logprobs, abs=1e-4)


def test_what_a_row_that_has_left_writes_is_nobodys(tiny_model, static):
    """One of three leaves: it is computed along, and the others' tokens and positions find their own rows."""
    model = tiny_model("llama", eos_token_id=None)
    model.generation_config.eos_token_id = None
    requests = [Request(i, prompt, max_new_tokens=most) for i, (prompt, most) in enumerate(
        [(PROMPTS[0], 30), (PROMPTS[1], 2), (PROMPTS[3], 20)])]  # fmt: skip
    done = static(model, requests)
    assert [shape[0] for shape in static.made[0].shapes] == [3] * 19 + [1] * 4
    for request in requests:
        most = min(24, request.max_new_tokens)
        assert done[request.index].completion_ids == reference(model, request.prompt_ids, max_new_tokens=most)


def test_memory_of_the_cache_follows_the_columns_not_the_limit(tiny_model, static):
    model = tiny_model("qwen2", max_position_embeddings=4096)
    done = static(model, [Request(0, PROMPTS[0])], replace(GREEDY, max_new_tokens=3000))
    assert len(done[0].completion_ids) < 60
    assert torch.tensor(static.made[0].shapes)[:, 1].max() == 3 + 64
