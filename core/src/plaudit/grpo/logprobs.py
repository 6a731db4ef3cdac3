"""Log-probs and entropies of completion tokens, in nats (spec: grpo-formulas A7).

Only the positions that predict a completion token reach the language-model head, a bounded number at a time; no tensor
of the size batch x sequence x vocabulary exists.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from .batch import MicroBatch
from .forward.head_forward import Tail, answered_by, is_plain, tail_of, vocabulary
from .forward.head_logprobs import (
    OUTSIDE,
    Entropies,
    chunked_logprobs,
    full_precision,
    linear_logprobs,
    logprobs_of,
)
from .forward.lean_norms import LeanNorms
from .forward.packable import PackedModel
from .forward.packing import Packed, pack
from .forward.precise_head import Float32Head


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
        self.tail = tail_of(model, self.head)
        self.scaling = (self.tail or Tail()).over(temperature)
        self.fused = self.tail is not None and is_plain(self.head)
        self.balanced = balanced
        self.dtype = model.get_input_embeddings().weight.dtype
        self.packed = PackedModel(model) if packing and not balanced else None
        self.norms = LeanNorms(model) if packing else None

    def __call__(self, model: nn.Module, batch: MicroBatch, *, entropies: Entropies = "none") -> TokenStats:
        """Run `model` (wrapped or not) on a micro-batch. Gradients flow into the log-probs, and into entropies if
        asked.
        """
        values, aux_loss = self._values(model, batch, entropies)
        grid = batch.mask.shape
        flat = values.new_zeros(grid.numel(), values.shape[-1]).index_copy(0, batch.slots, values)
        columns = flat.view(*grid, -1)
        if entropies == "none":
            return TokenStats(columns[..., 0], None, aux_loss=aux_loss)
        spread = columns[..., 1] if entropies == "bonus" else columns[..., 1].detach()
        return TokenStats(columns[..., 0], spread, aux_loss=aux_loss)

    def _values(self, model: nn.Module, batch: MicroBatch, entropies: Entropies) -> tuple[Tensor, Tensor | None]:
        """(T, 1) log-probs, or (T, 2) with entropies, of the positions that predict; and the load-balancing loss."""
        packed = pack(batch) if self.packed is not None and self.packed.ready and not batch.media else None
        positions = batch.positions if packed is None else packed.positions
        own = vars(self.head).get("forward") or partial(type(self.head).forward, self.head)
        found: list[Tensor] = []

        def stand_in(hidden: Tensor) -> Tensor:
            chosen = hidden.reshape(-1, hidden.shape[-1]).index_select(0, positions)
            found.append(self._of_hidden(chosen, own, batch, entropies))
            return found[-1]

        lean = nullcontext() if self.norms is None else self.norms.used()
        with lean, answered_by(stand_in, self.head):
            logits, aux_loss = self._run(model, batch, packed)
        if self.tail is not None and found:
            # They themselves, for the tail or a wrapper's half precision may have changed what the model returns. The
            # sum of nothing is there for wrappers, whose hooks wait for a gradient.
            return (logits if logits is found[-1] else found[-1] + logits[:0].sum()), aux_loss
        flat = logits.flatten(0, -2)
        chosen = full_precision(flat if found else flat.index_select(0, positions))
        # Some give tokens that they never write -inf, or the least number, which a temperature makes -inf.
        return logprobs_of(
            chosen.clamp(min=OUTSIDE), self.scaling, batch.targets, batch.candidates, entropies
        ), aux_loss

    def _run(self, model: nn.Module, batch: MicroBatch, packed: Packed | None) -> tuple[Tensor, Tensor | None]:
        if packed is not None and self.packed is not None:
            return self.packed(model, packed), None
        more = batch.seen(self.dtype) | ({"output_router_logits": True} if self.balanced else {})
        found = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False, **more)
        return found.logits, found.aux_loss if self.balanced else None

    def _of_hidden(self, chosen: Tensor, own: Callable[..., Tensor], batch: MicroBatch, entropies: Entropies) -> Tensor:
        """What the stand-in makes of the (T, H) hidden states that predict; `own` is the head's own forward."""
        if self.fused:
            return self._fused(chosen, batch, entropies)
        if self.tail is None:
            return own(chosen)
        return chunked_logprobs(
            chosen, own, vocabulary(self.head), self.scaling, batch.targets, batch.candidates, entropies
        )

    def _fused(self, chosen: Tensor, batch: MicroBatch, entropies: Entropies) -> Tensor:
        weight, bias = self.head.weight, self.head.bias
        rest = self.scaling, batch.targets, batch.candidates, entropies
        if isinstance(self.head, Float32Head):
            with torch.autocast(chosen.device.type, enabled=False):
                return linear_logprobs(chosen.float(), weight, bias, *rest)
        if torch.is_autocast_enabled(chosen.device.type):
            dtype = torch.get_autocast_dtype(chosen.device.type)
            chosen, weight, bias = chosen.to(dtype), weight.to(dtype), None if bias is None else bias.to(dtype)
        return linear_logprobs(chosen, weight, bias, *rest)
