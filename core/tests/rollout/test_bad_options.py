"""Sampling options, prompts and weights that cannot work: an error that names the value and what it must be."""

from __future__ import annotations

import math

import pytest
import torch
from beside_generate import GREEDY, PROMPTS, ours
from plaudit import PlauditError, UsageError
from plaudit.rollout.options import resolve
from plaudit.rollout.protocol import SamplingOptions

OUT_OF_PLACE = {
    "max_new_tokens": [0, -1, 2.5, "5", None, True],
    "temperature": [-0.1, math.inf, math.nan, "0.5", None, True],
    "top_p": [0, -1, 1.01, math.nan, "0.9", None],
    "top_k": [-1, 2.5, "3", None, True],
    "min_p": [-0.1, 1.5, math.nan, "0.1"],
    "repetition_penalty": [0, -1, math.inf, "1.1", None],
    "stop": ["END", ("",), (1,), None, ["a"]],
    "seed": [1.5, "7", 2**64, -(2**63) - 1, True],
    "generation_kwargs": [None, '{"top_k": 3}', [("top_k", 3)]],
}
EXTRA_OUT_OF_PLACE = {
    "do_sample": ["no", 0],
    "eos_token_id": ["1", -1, [1, "2"], 1.0],
    "min_new_tokens": [-1, "3", 1.5],
    "suppress_tokens": [5, [-1], ["a"], "ab"],
    "typical_p": [0, 1.5, "0.5"],
    "epsilon_cutoff": [-0.1, 1, "0.1"],
    "eta_cutoff": [-0.1, 1, 2],
    "stop_strings": ["", [1], [""]],
    "max_new_tokens": [None, 0],
    "top_k": [1.5],
}


def rows(table):
    return [pytest.param(name, value, id=f"{name}-{value!r}") for name, values in table.items() for value in values]


@pytest.mark.parametrize(("name", "value"), rows(OUT_OF_PLACE))
def test_a_value_out_of_place_is_named(name, value):
    with pytest.raises(UsageError, match=rf"sampling option {name} is .*; it must be ") as caught:
        SamplingOptions(**{name: value})
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("name", "value"), rows(EXTRA_OUT_OF_PLACE))
def test_a_value_out_of_place_in_generation_kwargs_is_named(name, value):
    with pytest.raises(UsageError, match=rf"{name.removesuffix('_strings')}\w* is .*; it must be "):
        resolve(SamplingOptions(generation_kwargs={name: value}))


def test_none_in_generation_kwargs_turns_an_option_off():
    """As in `generate()`."""
    names = ("top_p", "top_k", "min_p", "temperature", "repetition_penalty", "stop_strings", "suppress_tokens", "seed")
    kwargs = dict.fromkeys([*names, "eos_token_id", "do_sample", "structured_outputs"])
    asked = SamplingOptions(
        5, temperature=0.5, top_p=0.5, top_k=3, min_p=0.1, repetition_penalty=2.0, generation_kwargs=kwargs
    )
    sampling, extra = resolve(asked)
    assert sampling == SamplingOptions(5)
    assert not extra.narrows
    assert extra.do_sample


@pytest.mark.parametrize("prompt", [(5, 40), (-1,), (2**40,)])
def test_a_token_that_the_model_does_not_have(tiny_model, requests_of, prompt):
    with pytest.raises(UsageError, match=rf"request 1 has the token {prompt[-1]} in its prompt, but .* 0 to 39"):
        ours(tiny_model("qwen2"), requests_of([(5,), prompt]))


@pytest.mark.parametrize(
    ("suppressed", "message"),
    [([3, 40], "suppress_tokens has 40, but the model's tokens are 0 to 39"), (list(range(40)), "has every token")],
)
def test_tokens_that_cannot_be_suppressed(tiny_model, requests_of, suppressed, message):
    sampling = SamplingOptions(generation_kwargs={"suppress_tokens": suppressed})
    with pytest.raises(UsageError, match=message):
        ours(tiny_model("qwen2"), requests_of(PROMPTS), sampling)


def test_an_end_token_that_the_model_does_not_have_never_comes(tiny_model, requests_of):
    """A tokenizer may have more tokens than the model."""
    kwargs = {"eos_token_id": [99], "min_new_tokens": 2}
    done = ours(tiny_model("qwen2"), requests_of(PROMPTS), SamplingOptions(5, temperature=0, generation_kwargs=kwargs))
    assert {len(one.completion_ids) for one in done.values()} == {5}


@pytest.mark.parametrize("sampling", [GREEDY, SamplingOptions(4, seed=1), SamplingOptions(4, seed=1, top_k=3)])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_weights_that_are_no_numbers(tiny_model, requests_of, sampling, value):
    for name in ("qwen2", "gemma"):
        model = tiny_model(name)
        with torch.no_grad():
            model.lm_head.weight.fill_(value)
        with pytest.raises(PlauditError, match="its logits are not numbers"):
            ours(model, requests_of(PROMPTS), sampling)
