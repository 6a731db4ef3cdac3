"""When completions end, in which order they come, and what is left of the model afterwards."""

from collections import Counter

import pytest
import torch
from plaudit import UsageError
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.transformers_generator import TransformersGenerator


class Letters:
    """A tokenizer of sorts: token 2 is "a", 3 is "b", …"""

    eos_token_id = 1

    def batch_decode(self, rows, skip_special_tokens):
        return ["".join(chr(ord("a") + token - 2) for token in row if token > 1) for row in rows.tolist()]


@pytest.fixture
def model(tiny_model):
    return tiny_model("qwen3", vocab_size=12, initializer_range=0.1)


def sampled(model, requests, tokenizer=None, **options):
    options = {"max_new_tokens": 12, "seed": 2, **options}
    return list(TransformersGenerator(model, tokenizer).generate(requests, SamplingOptions(**options)))


def test_an_end_token_or_the_limit_ends_a_completion(model, requests_of):
    done = sampled(model, requests_of([(5, 9, 3), (7,)] * 20))
    assert sorted(g.index for g in done) == list(range(40))
    for generated in done:
        ids = generated.completion_ids
        assert 1 not in ids[:-1]
        assert len(generated.logprobs) == len(ids) <= 12
        assert generated.finish_reason == ("stop" if ids[-1] == 1 else "length")
        assert generated.finish_reason == "stop" or len(ids) == 12
    assert {g.finish_reason for g in done} == {"stop", "length"}


def test_short_completions_come_first(model, requests_of):
    lengths = [len(g.completion_ids) for g in sampled(model, requests_of([(5, 9, 3)] * 40))]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_end_tokens_of_model_and_tokenizer_both_count(model, requests_of):
    model.generation_config.eos_token_id = [4, 5]
    ends = {g.completion_ids[-1] for g in sampled(model, requests_of([(5, 9, 3)] * 60), Letters())}
    assert {1, 4, 5} <= ends
    only = sampled(model, requests_of([(5, 9, 3)] * 60), Letters(), generation_kwargs={"eos_token_id": 6})
    assert {g.completion_ids[-1] for g in only if g.finish_reason == "stop"} == {6}


def test_stop_strings(model, requests_of):
    def texts(**options):
        done = sampled(model, requests_of([(5, 9, 3)] * 60), Letters(), **options)
        return ["".join(Letters().batch_decode(torch.tensor([g.completion_ids]), True)) for g in done]

    free = texts()
    pair = Counter(text[i : i + 2] for text in free for i in range(2, len(text) - 1)).most_common(1)[0][0]
    stopped = texts(stop=("zz", pair))

    # The same noise draws the same texts, up to the end of the first occurrence.
    assert sorted(stopped) == sorted(text[: text.index(pair) + 2] if pair in text else text for text in free)
    assert stopped != free
    with pytest.raises(UsageError, match="stop strings need a tokenizer"):
        sampled(model, requests_of([(5,)]), stop=("cd",))


def test_prompts_are_computed_once_and_finished_rows_leave(tiny_model, requests_of):
    model = tiny_model("gemma3_sliding", vocab_size=12, initializer_range=0.1)
    shapes = []
    model.register_forward_pre_hook(
        lambda module, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    sampled(model, requests_of([(5, 9, 3)] * 16 + [(7,)] * 16), generation_kwargs={"eos_token_id": [1, 2, 3]})
    widths = [rows for rows, _ in shapes]
    assert shapes[0] == (2, 3)
    assert widths[1] >= 28
    assert widths[1:] == sorted(widths[1:], reverse=True)
    assert widths[-1] * 2 < widths[1]


@pytest.mark.parametrize("variant", ["qwen3", "gemma3_sliding"])
def test_dropout_and_checkpointing_are_off_and_the_model_is_left_as_it_was(tiny_model, requests_of, variant):
    model = tiny_model(variant, attention_dropout=0.5)
    calm = sampled(model, requests_of([(5, 9, 3)] * 8))
    model.train()
    model.gradient_checkpointing_enable()
    model.model.layers[1].eval()
    before = [module.training for module in model.modules()]

    stream = TransformersGenerator(model).generate(
        requests_of([(5, 9, 3)] * 8), SamplingOptions(max_new_tokens=12, seed=2)
    )
    done = [next(stream)]
    assert torch.is_grad_enabled()
    assert [module.training for module in model.modules()] == before
    done.extend(stream)

    for drawn, calmly in zip(done, calm, strict=True):
        assert (drawn.index, drawn.completion_ids) == (calmly.index, calmly.completion_ids)
        assert drawn.logprobs == pytest.approx(calmly.logprobs, abs=1e-5)
    assert [module.training for module in model.modules()] == before


def test_generation_survives_use_of_the_model_between_two_completions(model, requests_of):
    expected = sampled(model, requests_of([(5, 9, 3)] * 8))
    done = []
    for generated in TransformersGenerator(model).generate(
        requests_of([(5, 9, 3)] * 8), SamplingOptions(max_new_tokens=12, seed=2)
    ):
        model(torch.tensor([[3, 4, 5, 6, 7]])).logits.sum().backward()
        done.append(generated)
    assert done == expected


def test_a_stream_may_be_closed_early(model, requests_of):
    model.train()
    stream = TransformersGenerator(model).generate(requests_of([(5, 9, 3)] * 8), SamplingOptions(max_new_tokens=40))
    next(stream)
    stream.close()
    assert model.training
    assert torch.is_grad_enabled()


def test_no_requests_no_completions(model):
    assert sampled(model, []) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"generation_kwargs": {"num_beams": 4}}, "'num_beams' is not supported"),
        ({"generation_kwargs": {"top_kk": 4}}, "did you mean 'top_k'"),
        ({"generation_kwargs": {"top_p": 3}}, "top_p is 3"),
    ],
    ids=str,
)
def test_unknown_options_are_refused_by_name(model, requests_of, options, message):
    with pytest.raises(UsageError, match=message):
        sampled(model, requests_of([(5,)]), **options)


def test_an_empty_prompt_is_refused(model, requests_of):
    with pytest.raises(UsageError, match="request 1 has an empty prompt"):
        sampled(model, requests_of([(5,), ()]))


def test_generation_kwargs_override_the_fields(model, requests_of):
    plain = sampled(model, requests_of([(5, 9, 3)] * 8), max_new_tokens=7, temperature=0.5)
    by_kwargs = {"max_new_tokens": 7, "temperature": 0.5}
    assert sampled(model, requests_of([(5, 9, 3)] * 8), generation_kwargs=by_kwargs) == plain
