"""Decoding for small models of the Llama family, with few operations a token.

A small model spends its time on the number of operations, not on their size. This decoder does the arithmetic of
transformers' modules with norms folded into the projections that follow them, projections of one input joined, heads
rotated as complex numbers, and the KV cache written in place. Prompts are still computed by the model itself. Models
that it does not cover decode with `ModuleDecoder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .caches import whole_cache
from .decoders import cache_name, left_padded
from .folding import Affine, FoldedLayer, folded_norm, interleaved

if TYPE_CHECKING:
    from torch import Tensor

    from .media import Media

GROWTH = 64


class FusedDecoder:
    """W rows, K key-value heads of size D, R query heads to each.

    A layer's keys are kept transposed, (W, K, D, capacity), which makes their product with a query cheap; its values
    are (W, K, capacity, D).
    """

    def __init__(self, model: Any, *, longest: int) -> None:
        """`longest`: tokens of the longest row that may come, for the table of rotary angles."""
        import torch

        self._model = model
        self._layers = [FoldedLayer.of(layer) for layer in model.model.layers]
        self._last_norm = folded_norm(model.model.norm.weight)
        self._heads = model.config.num_key_value_heads
        size = model.model.layers[0].self_attn.head_dim
        cos, sin = model.model.rotary_emb(
            model.model.embed_tokens.weight, torch.arange(longest, device=model.device)[None]
        )
        self._turns = torch.complex(cos[0, :, : size // 2], sin[0, :, : size // 2])  # (longest, D / 2)
        # Constants of RMS norms as tensors, for a number in Python's precision is converted each time it is used.
        self._ones = cos.new_ones(model.config.hidden_size, 1)
        self._mean = cos.new_full((size, 1), 1 / size)
        self._eps = cos.new_full((1, 1), model.config.rms_norm_eps)
        self._summed_eps = self._eps * model.config.hidden_size
        self._longest = longest
        self._length = 0
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._positions: Tensor | None = None  # (W,) of the newest token, where padding makes them differ
        self._bias: Tensor | None = None  # (W, longest): -inf on padding, else 0

    @property
    def width(self) -> int:
        """Rows of the cache."""
        return len(self._keys[0])

    def prefill(self, prompts: Sequence[Sequence[int]], media: Sequence[Media | None] = ()) -> Tensor:
        """Compute U prompts by the model's own forward. Returns (U, V)."""
        ids, mask = left_padded(prompts, self._model.device)
        padded = not bool(mask.all())
        cache = whole_cache()  # a sliding layer's window is cut when it is read
        inputs = {"input_ids": ids, "attention_mask": mask if padded else None, cache_name(self._model): cache}
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logits = self._model(**inputs, position_ids=positions, use_cache=True, logits_to_keep=1).logits[:, -1]
        self._length = ids.shape[1]
        self._keys = [_transposed(layer.keys) for layer in cache.layers]
        self._values = [layer.values for layer in cache.layers]
        if padded:
            self._positions = positions[:, -1]
            self._bias = self._ones.new_zeros(len(ids), self._longest)
            self._bias[:, : self._length].masked_fill_(mask == 0, float("-inf"))
        self._make_room()
        return logits

    def select(self, rows: Tensor) -> None:
        """Keep or repeat rows of the cache."""
        for buffers in (self._keys, self._values):
            # One layer after another, so that no more than one is there twice.
            for place, buffer in enumerate(buffers):
                buffers[place] = buffer.index_select(0, rows)
        if self._bias is not None and self._positions is not None:
            self._bias, self._positions = self._bias[rows], self._positions[rows]

    def step(self, tokens: Tensor) -> Tensor:
        """One more token a row. Returns (W, V)."""
        from torch.nn.functional import linear

        if self._length == self._keys[0].shape[3]:
            self._make_room()
        turns = self._next_turns()
        self._length += 1
        hidden = self._model.model.embed_tokens(tokens)
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):
            mixed = self._attention(layer, self._normed(hidden), keys, values, turns)
            hidden = _added(hidden, mixed, layer.out)
            joint = linear(self._normed(hidden), *layer.gate_up)
            inner = joint.shape[1] // 2
            hidden = _added(hidden, layer.activation(joint[:, :inner]).mul_(joint[:, inner:]), layer.down)
        return self._model.lm_head(self._normed(hidden).mul_(self._last_norm))

    def _attention(self, layer: FoldedLayer, hidden: Tensor, keys: Tensor, values: Tensor, turns: Tensor) -> Tensor:
        """hidden: (W, H), normed. Writes the newest column of the cache. Returns (W, Q D), before the projection."""
        import torch

        width, heads, size, end = len(hidden), self._heads, values.shape[-1], self._length
        joint = torch.nn.functional.linear(hidden, *layer.qkv).view(width, -1, size)
        rotating = joint[:, :-heads]
        if layer.head_norm is not None:
            scale = (rotating * rotating).matmul(self._mean).add_(self._eps).rsqrt_()
            rotating = (rotating * scale).mul_(layer.head_norm)
        pairs = torch.view_as_complex(rotating.unflatten(-1, (-1, 2)))
        rotated = torch.view_as_real(pairs * turns).view(width, -1, size)
        keys[..., end - 1] = rotated[:, -heads:]
        values[:, :, end - 1] = joint[:, -heads:]
        start = 0 if layer.window is None else max(0, end - layer.window)
        query = rotated[:, :-heads].reshape(width * heads, -1, size)
        seen = keys.flatten(0, 1)[..., start:end]
        if self._bias is None:
            scores = torch.bmm(query, seen)
        else:
            bias = self._bias[:, None, None, start:end].expand(-1, heads, -1, -1).flatten(0, 1)
            scores = torch.baddbmm(bias, query, seen)
        return torch.bmm(scores.softmax(-1), values.flatten(0, 1)[:, start:end]).view(width, -1)

    def _next_turns(self) -> Tensor:
        """The rotations at the next token's position, (W or 1, 1, D / 2)."""
        if self._positions is None:
            return self._turns[None, self._length : self._length + 1]
        self._positions = self._positions + 1
        return self._turns[self._positions, None]

    def _normed(self, hidden: Tensor) -> Tensor:
        """(W, H) divided by its length; an RMS norm but for the factor that is folded into the weights."""
        import torch

        return hidden * torch.addmm(self._summed_eps, hidden * hidden, self._ones).rsqrt_()

    def _make_room(self) -> None:
        """Give the cache columns yet to be written after its last, one layer after another."""
        width = min(self._longest, self._length + max(GROWTH, self._length // 2))
        for place, (keys, values) in enumerate(zip(self._keys, self._values, strict=True)):
            self._keys[place] = wider = keys.new_empty(*keys.shape[:3], width)
            wider[..., : self._length] = keys
            self._values[place] = wider = values.new_empty(*values.shape[:2], width, values.shape[3])
            wider[:, :, : self._length] = values


def _added(hidden: Tensor, inner: Tensor, affine: Affine) -> Tensor:
    """hidden + inner @ weight + bias."""
    import torch

    weight, bias = affine
    total = torch.addmm(hidden, inner, weight)
    return total if bias is None else total.add_(bias)


def _transposed(keys: Tensor) -> Tensor:
    """(U, K, P, D) as the model caches them to interleaved (U, K, D, P)."""
    return interleaved(keys, keys.shape[-1], dim=3).transpose(2, 3).contiguous()
