"""Attention among the segments of a packed row: each sees itself and, where it continues one, its prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

NAME = "plaudit_packed"
"""What the attention is registered as with transformers."""

# Keyword arguments that say nothing about which token attends to which.
_HARMLESS = ("position_ids", "cache_position", "output_attentions", "use_cache")


class CannotPack(Exception):
    """The model's attention asks for something that `packed_attention` does not do."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`rows` segments of `width` tokens, the longest filling it, that lie side by side from token `start`.

    A block of completions has the block of their prompts as `parent`: `prompts`, (rows,), are the segments in it that
    they continue, and `prompt_lengths`, (rows,), how long those are.
    """

    start: int
    rows: int
    width: int
    parent: Block | None = None
    prompts: Tensor | None = None
    prompt_lengths: Tensor | None = None
    _biases: dict[tuple[int | None, torch.dtype], Tensor | None] = field(default_factory=dict)

    def seen(self, parts: Mapping[Block, Tensor]) -> Tensor:
        """The keys or values that it may attend to, (rows, heads, K, D): its prompts, then itself."""
        if self.parent is None or self.prompts is None:
            return parts[self]
        return torch.cat([parts[self.parent].index_select(0, self.prompts), parts[self]], dim=2)

    def bias(self, window: int | None, like: Tensor) -> Tensor | None:
        """(rows or 1, 1, width, K): 0 where attention may go, -inf elsewhere; None where it is plainly causal."""
        key = (window, like.dtype)
        if key not in self._biases:
            self._biases[key] = self._bias(window, like)
        return self._biases[key]

    def _bias(self, window: int | None, like: Tensor) -> Tensor | None:
        own = torch.arange(self.width, device=like.device)[None]
        if self.parent is None or self.prompt_lengths is None:
            if window is None or self.width <= window:
                return None
            queries, keys, real = own, own, torch.ones_like(own, dtype=torch.bool)
        else:
            lengths = self.prompt_lengths.unique()[:, None]
            lengths = lengths if len(lengths) == 1 else self.prompt_lengths[:, None]
            before = torch.arange(self.parent.width, device=like.device)[None].expand(len(lengths), -1)
            queries = lengths + own
            keys, real = torch.cat([before, queries], dim=1), torch.cat([before < lengths, queries >= 0], dim=1)
        distance = queries[:, :, None] - keys[:, None, :]
        allowed = (distance >= 0) & real[:, None, :]
        if window is not None:
            allowed &= distance < window
        return torch.zeros_like(allowed, dtype=like.dtype).masked_fill_(~allowed, -torch.inf)[:, None]


@dataclass(slots=True)
class Watch:
    """What the attention layers of one forward were asked: how many there are, how many of them have a window."""

    calls: int = 0
    windows: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class _Now:
    blocks: Sequence[Block]
    watch: Watch


_NOW: ContextVar[_Now] = ContextVar("packed_blocks")


@contextmanager
def attending(configs: Sequence[Any], blocks: Sequence[Block]) -> Iterator[Watch]:
    """Let the layers of a model with these (shared) configurations attend within `blocks` for a while."""
    before = [config._attn_implementation for config in configs]
    watch = Watch()
    token = _NOW.set(_Now(blocks, watch))
    _set(configs, [NAME] * len(configs))
    try:
        yield watch
    finally:
        _set(configs, before)
        _NOW.reset(token)


def _set(configs: Sequence[Any], names: Sequence[str]) -> None:
    for config, name in zip(configs, names, strict=True):
        config._attn_implementation_internal = name


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention in the form that transformers' layers call it. query: (1, heads, T, D). Returns (1, T, heads, D)."""
    _check(attention_mask, kwargs)
    now = _NOW.get()
    now.watch.calls += 1
    now.watch.windows += sliding_window is not None
    attend = _softcapped if softcap is not None else _plain
    queries, keys, values = (_by_block(now.blocks, packed) for packed in (query, key, value))
    found = []
    for block in now.blocks:
        bias = block.bias(sliding_window, query)
        out = attend(queries[block], block.seen(keys), block.seen(values), bias, dropout, scaling, softcap)
        found.append(out.transpose(1, 2).flatten(0, 1))
    return torch.cat(found)[None], None


def _by_block(blocks: Sequence[Block], values: Tensor) -> dict[Block, Tensor]:
    """Each block's part, (rows, heads, width, D), of the packed (1, heads, T, D)."""
    # Split at once: in the backward pass each slice by itself would become a whole (1, heads, T, D) of zeros.
    parts = values.squeeze(0).split([block.rows * block.width for block in blocks], dim=1)
    return {
        block: part.unflatten(1, (block.rows, block.width)).transpose(0, 1)
        for block, part in zip(blocks, parts, strict=True)
    }


def _check(attention_mask: Tensor | None, more: Mapping[str, Any]) -> None:
    asked = [name for name, value in more.items() if isinstance(value, Tensor) and name not in _HARMLESS]
    if attention_mask is not None or asked:
        raise CannotPack(f"attention with {', '.join(asked) or 'a mask'}")


def _plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout: float,
    scaling: float | None,
    softcap: float | None,
) -> Tensor:
    return nn.functional.scaled_dot_product_attention(
        query, key, value, bias, dropout, bias is None, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
    )


def _softcapped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout: float,
    scaling: float | None,
    softcap: float | None,
) -> Tensor:
    """Scores squeezed by tanh (Gemma 2), which the fused kernels do not know."""
    assert softcap is not None
    groups = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(groups, dim=1) for part in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    scores = torch.tanh(scores / softcap) * softcap
    if bias is None:
        bias = scores.new_full(scores.shape[-2:], -torch.inf).triu_(1)
    weights = (scores + bias).softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)
    return nn.functional.dropout(weights, dropout) @ value
