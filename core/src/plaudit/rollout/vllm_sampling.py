"""Sampling options under the names that vLLM gives them: its SamplingParams, and the body of /v1/completions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import UsageError
from .options import ExtraOptions, resolve
from .protocol import SamplingOptions
from .structured import StructuredOutput

# The largest bias that vLLM takes: e^-100 of a token's probability is none.
_NEVER = -100.0
_UNKNOWN_TO_VLLM = {"typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0}


def vllm_sampling(sampling: SamplingOptions, end_ids: Iterable[int]) -> dict[str, Any]:
    """`sampling` as vLLM names it. `end_ids`: the tokens that end a completion, and no others do.

    The log-prob of each drawn token is asked for, and text is read with its special tokens, as stop strings are
    here. Raises UsageError on an option that vLLM does not have.
    """
    sampling, extra = resolve(sampling)
    _refuse_unknown(extra)
    asked: dict[str, Any] = {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p or 0.0,
        "repetition_penalty": sampling.repetition_penalty,
        "stop": list(sampling.stop),
        "stop_token_ids": sorted(end_ids),
        "ignore_eos": True,
        "min_tokens": min(extra.min_new_tokens, sampling.max_new_tokens),
        "skip_special_tokens": False,
        "logprobs": 0,
    }
    if extra.suppress_tokens:
        asked["logit_bias"] = {token: _NEVER for token in extra.suppress_tokens}
    if sampling.structured is not None:
        asked["structured_outputs"] = _structured(sampling.structured)
    return asked


def _structured(structured: StructuredOutput) -> dict[str, Any]:
    value = getattr(structured, structured.kind)
    return {structured.kind: list(value) if structured.kind == "choice" else value}


def _refuse_unknown(extra: ExtraOptions) -> None:
    for name, off in _UNKNOWN_TO_VLLM.items():
        if getattr(extra, name) != off:
            raise UsageError(f"generation_kwargs: vLLM has no {name!r}; leave it out, or generate with transformers")
