"""The bodies of completion requests to a vLLM server, and what its answers say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import UsageError
from ..protocol import Generated, Request, SamplingOptions
from ..stopping import end_tokens
from .http import VLLMServerError
from .sampling import resolve_for_vllm, vllm_sampling

COMPLETIONS = "v1/completions"
# JSON has no infinity: vLLM writes this log-prob for a token that could not be drawn.
_IMPOSSIBLE = -9000.0
_TOKEN_PREFIX = "token_id:"


def completion_bodies(
    requests: Sequence[Request],
    sampling: SamplingOptions,
    model: Any,
    tokenizer: Any,
    *,
    max_length: int | None = None,
    candidates: bool = False,
) -> list[dict[str, Any]]:
    """One body a request, but for the model's name. Draws from torch's random state unless `sampling` has a seed.

    `max_length`: tokens of prompt and completion that the servers take. `candidates`: with top_k, ask what each token
    was drawn from. Raises UsageError on a prompt that is empty or too long, and on an option that vLLM does not have.
    """
    resolved, extra, _ = resolve_for_vllm(sampling)
    common = {
        **vllm_sampling(sampling, end_tokens(model, tokenizer, extra)),
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
    }
    if candidates and resolved.top_k and not resolved.greedy:
        common["logprobs"] = resolved.top_k
    bodies = []
    for request, seed in zip(requests, _seeds(requests, resolved), strict=True):
        body = {**common, "prompt": list(request.prompt_ids)}
        body["max_tokens"] = request.limit(min(common["max_tokens"], _room(request, max_length)))
        body["min_tokens"] = min(common["min_tokens"], body["max_tokens"])
        bodies.append(body if seed is None else {**body, "seed": seed})
    return bodies


def choice_of(answer: Any) -> Mapping[str, Any]:
    """The one choice of a completion. Raises KeyError and the like where the answer is none, or one that broke off."""
    choice = answer["choices"][0]
    if choice["finish_reason"] not in ("stop", "length") or not choice["token_ids"]:
        raise ValueError(f"it ended early: {choice['finish_reason']}")
    return dict(choice)


def generated(request: Request, choice: Mapping[str, Any]) -> Generated:
    """The completion that an answer holds. Raises VLLMServerError when it has not a log-prob for each token."""
    ids, found = choice["token_ids"], choice.get("logprobs") or {}
    logprobs = found.get("token_logprobs") or []
    if len(ids) != len(logprobs) or None in logprobs:
        raise VLLMServerError(
            f"a vLLM server reported {len(logprobs) - logprobs.count(None)} log-probs for {len(ids)} tokens; use vLLM "
            "0.32 or later"
        )
    return Generated(request.index, tuple(ids), tuple(logprobs), choice["finish_reason"], _candidates(ids, found))


def _candidates(ids: Sequence[int], found: Mapping[str, Any]) -> tuple[tuple[int, ...], ...] | None:
    """For each token what it was drawn from, itself first; None when that was not asked."""
    top = found.get("top_logprobs") or []
    if len(top) != len(ids) or not any(likely and len(likely) > 1 for likely in top):
        return None
    possible = [
        [int(name.removeprefix(_TOKEN_PREFIX)) for name, value in (likely or {}).items() if value > _IMPOSSIBLE]
        for likely in top
    ]
    return tuple(tuple(dict.fromkeys([drawn, *others])) for drawn, others in zip(ids, possible, strict=True))


def _room(request: Request, max_length: int | None) -> int:
    """Tokens that the completion of a request may have. Raises UsageError when there are none."""
    length = len(request.prompt_ids)
    if not length:
        raise UsageError(f"request {request.index} has an empty prompt; a prompt needs at least one token")
    if max_length is None:
        return 2**31
    if length >= max_length:
        raise UsageError(
            f"request {request.index} has a prompt of {length} tokens, but the vLLM server takes {max_length} with the "
            "completion; shorten it, or start the server with a larger --max-model-len"
        )
    return max_length - length


def _seeds(requests: Sequence[Request], sampling: SamplingOptions) -> list[int | None]:
    """A seed for each request; None when nothing is drawn."""
    import torch

    if sampling.greedy:
        return [None] * len(requests)
    source = None if sampling.seed is None else torch.Generator().manual_seed(sampling.seed)
    drawn = torch.randint(2**62, (len(requests),), generator=source).tolist()
    return [request.seed if request.seed is not None else seed for request, seed in zip(requests, drawn, strict=True)]
