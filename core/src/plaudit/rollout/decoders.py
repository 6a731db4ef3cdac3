"""How the model is asked for the next token's logits: prompts once, then one token a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

from .media import model_inputs

if TYPE_CHECKING:
    from torch import Tensor

    from .media import Media


class Decoder(Protocol):
    """Holds a KV cache of one entry a row. Called without gradients, on a model in eval mode."""

    def prefill(self, prompts: Sequence[Sequence[int]], media: Sequence[Media | None] = ()) -> Tensor:
        """Compute U prompts, each with its images if it has some. Returns the next token's logits, (U, V)."""
        ...

    def select(self, rows: Tensor) -> None:
        """Make the cache's rows those at `rows`, (M,) int64: repeats expand it, gaps compact it."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Append one token to each row, (W,) int64. Returns the next token's logits, (W, V)."""
        ...


class ModuleDecoder:
    """Any causal language model, through its own forward and one of transformers' caches."""

    def __init__(self, model: Any, *, longest: int, cache_implementation: str | None = None) -> None:
        """`model`: a causal language model in the sense of transformers, perhaps inside a PEFT wrapper.

        `longest`: tokens of the longest row that may come. `cache_implementation`: see `CACHES`.
        """
        self._model = model
        self._cache = CACHES[cache_implementation or "dynamic"](model.config.get_text_config(), longest)
        self._cache_name = cache_name(model)
        self._takes_positions = "position_ids" in _parameters(model)
        self._grid_positions = grid_positions(model)
        self._mask: Tensor | None = None
        self._positions: Tensor | None = None

    def prefill(self, prompts: Sequence[Sequence[int]], media: Sequence[Media | None] = ()) -> Tensor:
        """Compute U prompts, left-padded. Returns (U, V)."""
        ids, mask = left_padded(prompts, self._model.device)
        # Without padding no mask is given, which lets the model take its cheapest path.
        self._mask = None if bool(mask.all()) else mask
        starts = [ids.shape[1] - len(prompt) for prompt in prompts]
        seen = model_inputs(media, starts, ids.shape[1], dtype=float_type(self._model), device=ids.device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        self._positions = positions[:, -1:]
        if self._grid_positions is not None and any(one is not None and one.inputs for one in media):
            # An image takes up other positions than it has tokens; what follows counts on from there.
            positions, shift = self._grid_positions(ids, attention_mask=mask, **seen)
            self._positions = self._positions + shift
        return self._forward(ids, positions, **seen)

    def select(self, rows: Tensor) -> None:
        """Keep or repeat rows of the cache, the mask and the positions."""
        self._cache.reorder_cache(rows)
        if self._mask is not None:
            self._mask = self._mask[rows]
        assert self._positions is not None
        self._positions = self._positions[rows]

    def step(self, tokens: Tensor) -> Tensor:
        """One more token a row. Returns (W, V)."""
        assert self._positions is not None
        self._positions = self._positions + 1
        if self._mask is not None:
            self._mask = _with_ones(self._mask)
        return self._forward(tokens[:, None], self._positions)

    def _forward(self, ids: Tensor, positions: Tensor, **seen: Any) -> Tensor:
        inputs = {"input_ids": ids, "attention_mask": self._mask, self._cache_name: self._cache, "use_cache": True}
        inputs |= seen
        if self._takes_positions:
            inputs["position_ids"] = positions
        return self._model(**inputs, logits_to_keep=1).logits[:, -1]


def _dynamic(config: Any, longest: int) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=config)


def _static(config: Any, longest: int) -> Any:
    from transformers import StaticCache

    return StaticCache(config=config, max_cache_len=longest)


def _quantized(config: Any, longest: int) -> Any:
    from transformers import QuantizedCache

    return QuantizedCache(backend="quanto", config=config)


CACHES: dict[str, Callable[[Any, int], Any]] = {"dynamic": _dynamic, "static": _static, "quantized": _quantized}
"""Caches by the names that `generate()` gives them. Each is made of the text model's config and the longest row.

dynamic: grows with the rows. static: all of its room from the start, written in place. quantized: keys and values in 4
bits, by optimum-quanto.
"""


def float_type(model: Any) -> Any:
    """The type of the model's embeddings, which its other inputs share."""
    return model.get_input_embeddings().weight.dtype


def grid_positions(model: Any) -> Callable[..., tuple[Tensor, Tensor]] | None:
    """The model's own way to positions where images have rows and columns (Qwen2-VL's M-RoPE), if it has one.

    Returns (3, U, P) positions, and (U, 1): how far what follows is shifted.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    own = getattr(getattr(base, "model", None), "get_rope_index", None)
    if own is None:
        return None
    known = signature(own).parameters
    return lambda ids, **inputs: own(ids, **{name: value for name, value in inputs.items() if name in known})


def cache_name(model: Any) -> str:
    """What the model's forward calls its KV cache: `cache`, earlier `past_key_values`."""
    return "cache" if "cache" in _parameters(model) else "past_key_values"


def _parameters(model: Any) -> Mapping[str, Any]:
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return signature(base.forward).parameters


def left_padded(prompts: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """Token ids and mask (1 on tokens), both (U, P) int64, padded on the left with id 0."""
    import torch

    width = max(map(len, prompts))
    ids = torch.zeros(len(prompts), width, dtype=torch.long)
    mask = torch.zeros(len(prompts), width, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    return ids.to(device), mask.to(device)


def _with_ones(mask: Tensor) -> Tensor:
    import torch

    return torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
