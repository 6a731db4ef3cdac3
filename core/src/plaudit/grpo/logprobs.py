"""Log-probs and entropies of completion tokens, in nats (spec: grpo-formulas A7).

Only the positions that predict a completion token reach the language-model head, a bounded number at a time; no tensor
of the size batch x sequence x vocabulary exists.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .batch import MicroBatch
from .forward.head_forward import answered_by, head_comes_last
from .forward.lean_norms import LeanNorms
from .forward.packable import PackedModel
from .forward.packing import pack
from .forward.precise_head import Float32Head

# Logits that may exist at one time. A batch below it keeps its probabilities for the backward pass; a larger one is
# computed in chunks of this size, twice.
MAX_LOGITS = 1 << 24
OUTSIDE = -1e30  # a logit that no probability is left of, and that 0 can be multiplied with

Entropies = Literal["none", "metric", "bonus"]
"""Whether entropies are computed, and whether gradients flow into them."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenStats:
    """`logprobs` and `entropies`: (B, C), 0 where there is no completion token. No entropies unless asked for.

    `ran`: (B,) bool, the rows they were computed for; None = all. `aux_loss`: 0-dim, the load-balancing loss of a
    mixture of experts, with gradient, where the scorer balances.
    """

    logprobs: Tensor
    entropies: Tensor | None
    ran: Tensor | None = None
    aux_loss: Tensor | None = None


class TokenScorer:
    """Computes `TokenStats` of a causal language model, by a stand-in for the forward of its head.

    The head runs inside the model's own forward, so wrappers (DDP, FSDP, autocast) see an ordinary call. Rollouts are
    packed where that saves tokens and the model can, and its norms are lean ones, unless `packing` is off. `balanced`:
    the load-balancing loss is computed too, over the tokens of padded rows.
    """

    def __init__(self, model: nn.Module, *, temperature: float, packing: bool = True, balanced: bool = False) -> None:
        self.head: nn.Module = model.get_output_embeddings()
        self.temperature = temperature
        self.fused = isinstance(self.head, nn.Linear) and head_comes_last(model, self.head)
        self.balanced = balanced
        self.dtype = model.get_input_embeddings().weight.dtype
        self.packed = PackedModel(model) if packing and not balanced else None
        self.norms = LeanNorms(model) if packing else None

    def __call__(self, model: nn.Module, batch: MicroBatch, *, entropies: Entropies = "none") -> TokenStats:
        """Run `model` (wrapped or not) on a micro-batch. Gradients flow into the log-probs, and into entropies if
        asked.
        """
        values, aux_loss = self._values(model, batch, entropies)
        if not self.fused:
            values = _from_logits(values.flatten(0, -2), batch, self.temperature, entropies)
        grid = batch.mask.shape
        flat = values.new_zeros(grid.numel(), values.shape[-1]).index_copy(0, batch.slots, values)
        columns = flat.view(*grid, -1)
        if entropies == "none":
            return TokenStats(columns[..., 0], None, aux_loss=aux_loss)
        spread = columns[..., 1] if entropies == "bonus" else columns[..., 1].detach()
        return TokenStats(columns[..., 0], spread, aux_loss=aux_loss)

    def _values(self, model: nn.Module, batch: MicroBatch, entropies: Entropies) -> tuple[Tensor, Tensor | None]:
        """(T, …): what the head's stand-in makes of the positions that predict; and the load-balancing loss."""
        packed = pack(batch) if self.packed is not None and self.packed.ready and not batch.media else None
        positions = batch.positions if packed is None else packed.positions
        head = self._fused_head if self.fused else self._selecting_head
        lean = nullcontext() if self.norms is None else self.norms.used()
        with lean, answered_by(lambda hidden: head(hidden, positions, batch, entropies), self.head):
            if packed is not None and self.packed is not None:
                return self.packed(model, packed), None
            more = batch.seen(self.dtype) | ({"output_router_logits": True} if self.balanced else {})
            found = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False, **more)
            return found.logits, found.aux_loss if self.balanced else None

    def _fused_head(self, hidden: Tensor, positions: Tensor, batch: MicroBatch, entropies: Entropies) -> Tensor:
        weight, bias = self.head.weight, self.head.bias
        rest = batch.targets, 1 / self.temperature, entropies, batch.candidates
        chosen = hidden.reshape(-1, hidden.shape[-1]).index_select(0, positions)
        if isinstance(self.head, Float32Head):
            with torch.autocast(chosen.device.type, enabled=False):
                return _HeadLogprobs.apply(chosen.float(), weight, bias, *rest)
        if torch.is_autocast_enabled(chosen.device.type):
            dtype = torch.get_autocast_dtype(chosen.device.type)
            chosen, weight, bias = chosen.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        return _HeadLogprobs.apply(chosen, weight, bias, *rest)

    def _selecting_head(self, hidden: Tensor, positions: Tensor, batch: MicroBatch, entropies: Entropies) -> Tensor:
        chosen = hidden.reshape(-1, hidden.shape[-1]).index_select(0, positions)
        return type(self.head).forward(self.head, chosen)


def _from_logits(logits: Tensor, batch: MicroBatch, temperature: float, entropies: Entropies) -> Tensor:
    """logits: (T, V). Returns (T, 1), or (T, 2) with the entropies."""
    scaled = among(_full_precision(logits) / temperature, batch.candidates)
    total = torch.logsumexp(scaled, dim=-1)
    logprobs = scaled.gather(-1, batch.targets[:, None])[:, 0] - total
    if entropies == "none":
        return logprobs[:, None]
    entropy = total - ((scaled - total[:, None]).exp() * scaled).sum(-1)
    return torch.stack([logprobs, entropy], dim=-1)


def _full_precision(values: Tensor) -> Tensor:
    return values if values.dtype == torch.float64 else values.float()


def among(logits: Tensor, candidates: Tensor | None) -> Tensor:
    """(t, V) logits with those of other tokens than the `candidates`, (t, K) ids, so low that they have no share.

    Log-probs and entropies are then those of the distribution that an engine with top-k and the like draws from.
    """
    if candidates is None:
        return logits
    outside = torch.ones_like(logits, dtype=torch.bool).scatter_(1, candidates, False)
    return logits.masked_fill(outside, OUTSIDE)


class _HeadLogprobs(torch.autograd.Function):
    """(T, H) hidden states to (T, 1) log-probs, or (T, 2) with entropies.

    Backward recomputes the logits chunk by chunk, unless all fit into one chunk, whose probabilities are then kept.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        scale: float,
        entropies: Entropies,
        candidates: Tensor | None = None,
    ) -> Tensor:
        wanted = entropies != "none"
        size = max(1, MAX_LOGITS // weight.shape[0])
        keep = hidden.shape[0] <= size and any(ctx.needs_input_grad[:3])
        found, kept = [_full_precision(hidden).new_zeros(0, 2 + wanted)], None
        for part in _slices(hidden.shape[0], size):
            logits = among(_logits(hidden[part], weight, bias, scale), _part(candidates, part))
            total = torch.logsumexp(logits, dim=-1, keepdim=True)
            columns = [logits.gather(-1, targets[part, None]) - total]
            if wanted or keep:
                kept = (logits - total).exp_()
            if wanted:
                columns.append(total - torch.linalg.vecdot(kept, logits)[:, None])
            found.append(torch.cat([*columns, total], dim=-1))
        values = torch.cat(found)
        ctx.save_for_backward(hidden, weight, bias, targets, values, kept if keep else None, candidates)
        ctx.scale, ctx.size, ctx.bonus = scale, size, entropies == "bonus"
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
                probabilities = kept.clone()
            else:
                logits = among(_logits(hidden[part], weight, bias, ctx.scale), _part(candidates, part))
                probabilities = logits.sub_(values[part, -1:]).exp_()
            slope = _logit_gradient(probabilities, grad[part], targets[part], values[part] if ctx.bonus else None)
            slope = slope.mul_(ctx.scale).to(weight.dtype)
            if into_hidden is not None:
                torch.mm(slope, weight, out=into_hidden[part])
            if into_weight is not None:
                _add_product(into_weight, slope, hidden[part])
            if into_bias is not None:
                into_bias += slope.sum(0)
        cast = [None if found is None else found.to(weight.dtype) for found in (into_weight, into_bias)]
        return into_hidden, *cast, None, None, None, None


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    logits = _full_precision(nn.functional.linear(hidden, weight, bias))
    return logits if scale == 1 else logits * scale


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
