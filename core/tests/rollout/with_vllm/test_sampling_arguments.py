"""Sampling options under vLLM's names."""

from __future__ import annotations

import pytest
from plaudit.errors import UsageError
from plaudit.rollout.protocol import SamplingOptions
from plaudit.rollout.structured import StructuredOutput
from plaudit.rollout.vllm.sampling import vllm_sampling

PLAIN = {
    "max_tokens": 512,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "stop": [],
    "stop_token_ids": [1, 3],
    "ignore_eos": True,
    "min_tokens": 0,
    "skip_special_tokens": False,
    "logprobs": 0,
}
CASES = {
    "plain": ({}, {}),
    "fields": (
        {"max_new_tokens": 7, "temperature": 0.0, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2},
        {"max_tokens": 7, "temperature": 0.0, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2},
    ),
    "stop": ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
    "regex": ({"structured": StructuredOutput(regex="[0-9]+")}, {"structured_outputs": {"regex": "[0-9]+"}}),
    "choice": ({"structured": StructuredOutput(choice=("a", "b"))}, {"structured_outputs": {"choice": ["a", "b"]}}),
    "json": (
        {"structured": StructuredOutput(json={"type": "object"})},
        {"structured_outputs": {"json": {"type": "object"}}},
    ),
    "names of generate()": (
        {"generation_kwargs": {"max_new_tokens": 3, "min_new_tokens": 2, "suppress_tokens": [4], "stop_strings": "x"}},
        {"max_tokens": 3, "min_tokens": 2, "logit_bias": {4: -100.0}, "stop": ["x"]},
    ),
    "greedy": ({"generation_kwargs": {"do_sample": False}}, {"temperature": 0.0}),
    "another end": (
        {"generation_kwargs": {"eos_token_id": 9}},
        {"stop_token_ids": [9]},
    ),
    "names of vLLM": (
        {"generation_kwargs": {"max_tokens": 3, "min_tokens": 2, "stop": ["x"], "presence_penalty": 0.5}},
        {"max_tokens": 3, "min_tokens": 2, "stop": ["x"], "presence_penalty": 0.5},
    ),
    "structured as in TRL": (
        {"generation_kwargs": {"structured_outputs": {"regex": "a+"}}},
        {"structured_outputs": {"regex": "a+"}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_options(case):
    given, expected = CASES[case]
    assert vllm_sampling(SamplingOptions(**given), [3, 1]) == {**PLAIN, **expected}


def test_end_tokens_join_the_stop_tokens():
    given = SamplingOptions(generation_kwargs={"stop_token_ids": [7]})
    assert vllm_sampling(given, [1, 3])["stop_token_ids"] == [1, 3, 7]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"generation_kwargs": {"top_kk": 3}}, "'top_kk' is not supported by this generator; did you mean 'top_k'"),
        ({"generation_kwargs": {"n": 4}}, "'n' is not supported"),
        ({"generation_kwargs": {"typical_p": 0.5}}, "vLLM has no 'typical_p'"),
        ({"generation_kwargs": {"structured_outputs": {"regexp": "a"}}}, "did you mean 'regex'"),
        ({"temperature": 0.001}, r"vLLM samples at 0.01 or above"),
    ],
)
def test_what_vllm_cannot_do_is_refused_by_name(given, message):
    with pytest.raises(UsageError, match=message):
        vllm_sampling(SamplingOptions(**given), [1])
