"""Decoding for small models of the Llama family, with few operations a token.

A small model spends its time on the number of operations, not on their size. This decoder does the arithmetic of
transformers' modules with norms folded into the projections that follow them, projections of one input joined, and the
KV cache written in place. Prompts are still computed by the model itself. Models that it does not cover decode with
`ModuleDecoder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .decoders import Decoder, ModuleDecoder, cache_name, left_padded
from .folding import FoldedLayer, covered

if TYPE_CHECKING:
    from torch import Tensor

GROWTH = 64


def decoder_for(model: Any, *, longest: int) -> Decoder:
    """The decoder for this model. `longest`: prompt and completion tokens of the longest row that may come."""
    return FusedDecoder(model, longest=longest) if covered(model) else ModuleDecoder(model)


class FusedDecoder:
    """W rows, K key-value heads of size D, R query heads to each; keys and values of a layer: (W, K, capacity, D)."""

    def __init__(self, model: Any, *, longest: int) -> None:
        """`longest`: tokens of the longest row that may come, for the table of rotary angles."""
        import torch

        self._model = model
        self._layers = [FoldedLayer.of(layer) for layer in model.model.layers]
        self._eps = model.config.rms_norm_eps
        self._heads = model.config.num_key_value_heads
        cos, sin = model.model.rotary_emb(
            model.model.embed_tokens.weight, torch.arange(longest, device=model.device)[None]
        )
        first, second = sin[0].chunk(2, dim=-1)
        # With the sign in the table, to rotate is to swap the halves.
        self._cos, self._sin = cos[0], torch.cat([-first, second], dim=-1)
        self._longest = longest
        self._length = 0
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._positions: Tensor | None = None  # (W,) of the newest token, where padding makes them differ
        self._bias: Tensor | None = None  # (W, longest): -inf on padding, else 0

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Compute U prompts by the model's own forward. Returns (U, V)."""
        from transformers import DynamicCache

        ids, mask = left_padded(prompts, self._model.device)
        padded = not bool(mask.all())
        # Made without a config, the cache keeps all columns of sliding layers too; the window is cut when it is read.
        cache = DynamicCache()
        inputs = {"input_ids": ids, "attention_mask": mask if padded else None, cache_name(self._model): cache}
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        logits = self._model(**inputs, position_ids=positions, use_cache=True, logits_to_keep=1).logits[:, -1]
        self._length = ids.shape[1]
        self._keys, self._values = ([getattr(layer, name) for layer in cache.layers] for name in ("keys", "values"))
        if padded:
            self._positions = positions[:, -1]
            self._bias = self._cos.new_zeros(len(ids), self._longest)
            self._bias[:, : self._length].masked_fill_(mask == 0, float("-inf"))
        return logits

    def select(self, rows: Tensor) -> None:
        """Keep or repeat rows of the cache."""
        self._keys = [keys.index_select(0, rows) for keys in self._keys]
        self._values = [values.index_select(0, rows) for values in self._values]
        if self._bias is not None and self._positions is not None:
            self._bias, self._positions = self._bias[rows], self._positions[rows]

    def step(self, tokens: Tensor) -> Tensor:
        """One more token a row. Returns (W, V)."""
        from torch.nn.functional import linear

        if self._length == self._keys[0].shape[2]:
            self._keys = [self._with_room(keys) for keys in self._keys]
            self._values = [self._with_room(values) for values in self._values]
        cos, sin = self._angles()
        self._length += 1
        inner = self._model.model
        hidden = inner.embed_tokens(tokens)
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):
            hidden = hidden + self._attention(layer, self._normed(hidden), keys, values, cos, sin)
            gate, up = linear(self._normed(hidden), *layer.gate_up).chunk(2, dim=-1)
            hidden = hidden + linear(layer.activation(gate).mul_(up), *layer.down)
        return self._model.lm_head(self._normed(hidden).mul_(inner.norm.weight))

    def _attention(
        self, layer: FoldedLayer, hidden: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor
    ) -> Tensor:
        """hidden: (W, H), normed. Writes the newest column of the cache. Returns (W, H)."""
        import torch

        width, heads, size, end = len(hidden), self._heads, keys.shape[-1], self._length
        joint = torch.nn.functional.linear(hidden, *layer.qkv).view(width, -1, size)
        rotating, value = joint[:, :-heads], joint[:, -heads:]
        if layer.head_norm is not None:
            rotating = self._normed(rotating).mul_(layer.head_norm)
        first, second = rotating.chunk(2, dim=-1)
        rotated = torch.addcmul(rotating * cos, torch.cat([second, first], dim=-1), sin)
        keys[:, :, end - 1] = rotated[:, -heads:]
        values[:, :, end - 1] = value
        start = 0 if layer.window is None else max(0, end - layer.window)
        query = rotated[:, :-heads].reshape(width * heads, -1, size)
        seen = keys.flatten(0, 1)[:, start:end].transpose(1, 2)
        if self._bias is None:
            scores = torch.bmm(query, seen)
        else:
            bias = self._bias[:, None, None, start:end].expand(-1, heads, -1, -1).flatten(0, 1)
            scores = torch.baddbmm(bias, query, seen)
        mixed = torch.bmm(scores.softmax(-1), values.flatten(0, 1)[:, start:end])
        return torch.nn.functional.linear(mixed.view(width, -1), *layer.out)

    def _angles(self) -> tuple[Tensor, Tensor]:
        """Cosines and signed sines of the next token's position, (W or 1, 1, D)."""
        if self._positions is None:
            place: Any = slice(self._length, self._length + 1)
        else:
            self._positions = place = self._positions + 1
        return self._cos[place, None], self._sin[place, None]

    def _normed(self, hidden: Tensor) -> Tensor:
        """RMS norm over the last dimension, without its weight."""
        import torch

        return torch.nn.functional.rms_norm(hidden, hidden.shape[-1:], None, self._eps)

    def _with_room(self, buffer: Tensor) -> Tensor:
        """The cache buffer with columns yet to be written after its last."""
        width = min(self._longest, self._length + max(GROWTH, self._length // 2))
        wider = buffer.new_empty(*buffer.shape[:2], width, buffer.shape[3])
        wider[:, :, : self._length] = buffer
        return wider
