"""From our sampling options to vLLM's, whose names the in-process engine and the server share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...errors import UsageError
from ..options import EXTRA_NAMES, OVERRIDES, ExtraOptions, resolve, unknown_option
from ..protocol import SamplingOptions
from ..structured import StructuredOutput

OWN_NAMES = (
    "stop_token_ids",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "allowed_token_ids",
    "bad_words",
)
"""What `generation_kwargs` may hold under vLLM's names, beside the names of transformers' `generate()`."""

_SAME = {"max_tokens": "max_new_tokens", "min_tokens": "min_new_tokens", "stop": "stop_strings"}
_MISSING = ("typical_p", "epsilon_cutoff", "eta_cutoff")
LEAST_TEMPERATURE = 0.01  # vLLM raises what is below, except 0
FORBIDDEN = -100.0  # a logit bias that no logit makes up for


def vllm_sampling(sampling: SamplingOptions, end_ids: Iterable[int]) -> dict[str, Any]:
    """The arguments of vLLM's SamplingParams but the seed; the server takes the same names.

    `end_ids`: the tokens that end a completion, and no others do. The log-prob of each drawn token is asked for, and
    text is read with its special tokens, as stop strings are here. `structured_outputs` is a mapping. Raises UsageError
    on an option that vLLM does not have.
    """
    sampling, extra, own = resolve_for_vllm(sampling)
    if 0 < sampling.temperature < LEAST_TEMPERATURE:
        raise UsageError(
            f"temperature is {sampling.temperature}, but vLLM samples at {LEAST_TEMPERATURE} or above; set that, or 0 "
            "for greedy completions"
        )
    if extra.eos_token_id is not None:
        end_ids = [extra.eos_token_id] if isinstance(extra.eos_token_id, int) else extra.eos_token_id
    asked: dict[str, Any] = {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p or 0.0,
        "repetition_penalty": sampling.repetition_penalty,
        "stop": list(sampling.stop),
        "stop_token_ids": sorted({*end_ids, *own.pop("stop_token_ids", ())}),
        "ignore_eos": True,
        "min_tokens": min(extra.min_new_tokens, sampling.max_new_tokens),
        "skip_special_tokens": False,
        "logprobs": 0,
    }
    bias = {**dict.fromkeys(extra.suppress_tokens, FORBIDDEN), **own.pop("logit_bias", {})}
    if bias:
        asked["logit_bias"] = bias
    if sampling.structured is not None:
        value = getattr(sampling.structured, sampling.structured.kind)
        asked["structured_outputs"] = {sampling.structured.kind: list(value) if isinstance(value, tuple) else value}
    return asked | own


def resolve_for_vllm(sampling: SamplingOptions) -> tuple[SamplingOptions, ExtraOptions, dict[str, Any]]:
    """Fold `generation_kwargs` in. Returns the options, what `generate()` has more, and what vLLM has more.

    Raises UsageError on a name that vLLM does not know, or an option that it cannot do.
    """
    known: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in sampling.generation_kwargs.items():
        if name == "structured_outputs":
            sampling = replace(sampling, structured=StructuredOutput.of(value))
        elif name in OWN_NAMES:
            own[name] = value
        elif name in _SAME or name in OVERRIDES or name in EXTRA_NAMES:
            known[_SAME.get(name, name)] = value
        else:
            raise UsageError(unknown_option(name, [*OVERRIDES, *EXTRA_NAMES, *_SAME, *OWN_NAMES, "structured_outputs"]))
    resolved, extra = resolve(replace(sampling, generation_kwargs=known))
    default = ExtraOptions()
    for name in _MISSING:
        if getattr(extra, name) != getattr(default, name):
            raise UsageError(f"generation_kwargs: vLLM has no {name!r}; leave it out, or generate with transformers")
    return resolved, extra, own
