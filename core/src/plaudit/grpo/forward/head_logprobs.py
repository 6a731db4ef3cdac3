"""From hidden states through a head to log-probs and entropies, in nats, a bounded number of logits at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from .head_forward import Tail

# Logits that may exist at one time. A batch below it keeps its probabilities for the backward pass; a larger one is
# computed in chunks of this size, twice.
MAX_LOGITS = 1 << 24
OUTSIDE = -1e30  # a logit that no probability is left of, and that 0 can be multiplied with

Entropies = Literal["none", "metric", "bonus"]
"""Whether entropies are computed, and whether gradients flow into them."""


def linear_logprobs(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    tail: Tail,
    targets: Tensor,
    candidates: Tensor | None,
    entropies: Entropies,
) -> Tensor:
    """(T, H) hidden states through a linear head to (T, 1) log-probs, or (T, 2) with the entropies."""
    found: Tensor = _LinearLogprobs.apply(hidden, weight, bias, tail, targets, candidates, entropies)
    return found


def chunked_logprobs(
    hidden: Tensor,
    head: Callable[[Tensor], Tensor],
    vocabulary: int,
    tail: Tail,
    targets: Tensor,
    candidates: Tensor | None,
    entropies: Entropies,
) -> Tensor:
    """`linear_logprobs` for a head that is more than linear: one with an adapter, scales, or quantised weights."""

    def of_part(hidden: Tensor, targets: Tensor, candidates: Tensor | None) -> Tensor:
        return logprobs_of(head(hidden), tail, targets, candidates, entropies)

    parts = _slices(len(hidden), max(1, MAX_LOGITS // vocabulary))
    if len(parts) < 2:
        return of_part(hidden, targets, candidates)
    rest = [(hidden[part], targets[part], _part(candidates, part)) for part in parts]
    return torch.cat([checkpoint(of_part, *one, use_reentrant=False) for one in rest])


def logprobs_of(logits: Tensor, tail: Tail, targets: Tensor, candidates: Tensor | None, entropies: Entropies) -> Tensor:
    """logits: (t, V), as the head gives them. Returns (t, 1) log-probs, or (t, 2) with the entropies."""
    scaled = among(tail(full_precision(logits)), candidates)
    total = torch.logsumexp(scaled, dim=-1)
    logprobs = scaled.gather(-1, targets[:, None])[:, 0] - total
    if entropies == "none":
        return logprobs[:, None]
    with torch.set_grad_enabled(torch.is_grad_enabled() and entropies == "bonus"):
        entropy = total - ((scaled - total[:, None]).exp() * scaled).sum(-1)
    return torch.stack([logprobs, entropy], dim=-1)


def full_precision(values: Tensor) -> Tensor:
    """Half precision as float32, others as they are."""
    return values if values.dtype == torch.float64 else values.float()


def among(logits: Tensor, candidates: Tensor | None) -> Tensor:
    """(t, V) logits with those of other tokens than the `candidates`, (t, K) ids, so low that they have no share.

    Log-probs and entropies are then those of the distribution that an engine with top-k and the like draws from.
    """
    if candidates is None:
        return logits
    outside = torch.ones_like(logits, dtype=torch.bool).scatter_(1, candidates, False)
    return logits.masked_fill(outside, OUTSIDE)


class _LinearLogprobs(torch.autograd.Function):
    """(T, H) hidden states to (T, 1) log-probs, or (T, 2) with entropies.

    Backward recomputes the logits chunk by chunk, unless all fit into one chunk, whose probabilities are then kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        tail: Tail,
        targets: Tensor,
        candidates: Tensor | None,
        entropies: Entropies,
    ) -> Tensor:
        wanted = entropies != "none"
        size = max(1, MAX_LOGITS // weight.shape[0])
        keep = hidden.shape[0] <= size and tail.cap is None and any(ctx.needs_input_grad[:3])
        found, kept = [full_precision(hidden).new_zeros(0, 2 + wanted)], None
        for part in _slices(hidden.shape[0], size):
            logits = among(_logits(hidden[part], weight, bias, tail), _part(candidates, part))
            total = torch.logsumexp(logits, dim=-1, keepdim=True)
            columns = [logits.gather(-1, targets[part, None]) - total]
            if wanted or keep:
                kept = (logits - total).exp_()
            if wanted:
                columns.append(total - torch.linalg.vecdot(kept, logits)[:, None])
            found.append(torch.cat([*columns, total], dim=-1))
        values = torch.cat(found)
        ctx.save_for_backward(hidden, weight, bias, targets, values, kept if keep else None, candidates)
        ctx.tail, ctx.size, ctx.bonus = tail, size, entropies == "bonus"
        return values[:, :-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, targets, values, kept, candidates = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        into_hidden = torch.empty_like(hidden) if needs_hidden else None
        into_weight = torch.zeros_like(weight, dtype=values.dtype) if needs_weight else None
        into_bias = torch.zeros_like(bias, dtype=values.dtype) if bias is not None and needs_bias else None
        for part in _slices(hidden.shape[0], ctx.size):
            if kept is not None:
                probabilities, bend = kept.clone(), ctx.tail.scale
            else:
                logits = _logits(hidden[part], weight, bias, ctx.tail)
                bend = ctx.tail.slope(logits)
                probabilities = among(logits, _part(candidates, part)).sub_(values[part, -1:]).exp_()
            slope = _logit_gradient(probabilities, grad[part], targets[part], values[part] if ctx.bonus else None)
            slope = slope.mul_(bend).to(weight.dtype)
            if into_hidden is not None:
                torch.mm(slope, weight, out=into_hidden[part])
            if into_weight is not None:
                _add_product(into_weight, slope, hidden[part])
            if into_bias is not None:
                into_bias += slope.sum(0)
        cast = [None if found is None else found.to(weight.dtype) for found in (into_weight, into_bias)]
        return into_hidden, *cast, None, None, None, None


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, tail: Tail) -> Tensor:
    return tail(full_precision(nn.functional.linear(hidden, weight, bias)))


def _logit_gradient(probabilities: Tensor, grad: Tensor, targets: Tensor, values: Tensor | None) -> Tensor:
    """(t, V): the gradient of log-prob and entropy by the scaled logits. `values`: (t, 3) logp, entropy, total.

    Overwrites the probabilities.
    """
    if values is None:
        return probabilities.mul_(-grad[:, :1]).scatter_add_(1, targets[:, None], grad[:, :1])
    # d entropy / d logit = -p (log p + entropy)
    entropy_slope = torch.special.xlogy(probabilities, probabilities).addcmul_(probabilities, values[:, 1:2])
    slope = probabilities.mul_(-grad[:, :1]).scatter_add_(1, targets[:, None], grad[:, :1])
    return slope.sub_(entropy_slope.mul_(grad[:, 1:2]))


def _add_product(total: Tensor, slope: Tensor, hidden: Tensor) -> None:
    """total (V, H) += slope.T (V, t) @ hidden (t, H), without another (V, H) where the types allow it."""
    if total.dtype == slope.dtype == hidden.dtype:
        total.addmm_(slope.t(), hidden)
    else:
        total += slope.t() @ hidden


def _part(values: Tensor | None, part: slice) -> Tensor | None:
    return None if values is None else values[part]


def _slices(length: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]
