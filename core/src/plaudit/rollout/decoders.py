"""How the model is asked for the next token's logits: prompts once, then one token a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

from .caches import base_of
from .media import model_inputs

if TYPE_CHECKING:
    from torch import Tensor

    from .media import Media


class Decoder(Protocol):
    """Holds a KV cache of one entry a row. Called without gradients, on a model in eval mode."""

    @property
    def width(self) -> int:
        """Rows that the cache has room for, those that have left it among them."""
        ...

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

    def __init__(self, model: Any, cache: Any) -> None:
        """`model`: a causal language model in the sense of transformers, perhaps inside a PEFT wrapper.

        `cache`: one of transformers', empty.
        """
        self._model = model
        self.cache = cache
        self._cache_name = cache_name(model)
        self._takes_positions = "position_ids" in _parameters(model)
        self._grid_positions = grid_positions(model)
        self.mask: Tensor | None = None  # (W, columns), None where nothing is padding
        self.positions: Tensor  # (W, 1) of the newest token

    @property
    def width(self) -> int:
        """Rows of the cache."""
        return len(self.positions)

    def prefill(self, prompts: Sequence[Sequence[int]], media: Sequence[Media | None] = ()) -> Tensor:
        """Compute U prompts, left-padded. Returns (U, V)."""
        ids, mask = left_padded(prompts, self._model.device)
        # Without padding no mask is given, which lets the model take its cheapest path.
        self.mask = None if bool(mask.all()) else mask
        starts = [ids.shape[1] - len(prompt) for prompt in prompts]
        seen = model_inputs(media, starts, ids.shape[1], dtype=float_type(self._model), device=ids.device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        self.positions = positions[:, -1:]
        if self._grid_positions is not None and any(one is not None and one.inputs for one in media):
            # An image takes up other positions than it has tokens; what follows counts on from there.
            positions, shift = self._grid_positions(ids, attention_mask=mask, **seen)
            self.positions = self.positions + shift
        return self._logits(self.inputs(ids, positions, self.mask, self.cache) | seen)

    def select(self, rows: Tensor) -> None:
        """Keep or repeat rows of the cache, the mask and the positions."""
        self.cache.reorder_cache(rows)
        if self.mask is not None:
            self.mask = self.mask[rows]
        self.positions = self.positions[rows]

    def step(self, tokens: Tensor) -> Tensor:
        """One more token a row. Returns (W, V)."""
        self.positions = self.positions + 1
        if self.mask is not None:
            self.mask = _with_ones(self.mask)
        return self._logits(self.inputs(tokens[:, None], self.positions, self.mask, self.cache))

    def inputs(self, ids: Tensor, positions: Tensor, mask: Tensor | None, cache: Any) -> dict[str, Any]:
        """What the model's forward is given for the last token's logits, under its own names."""
        given = {"input_ids": ids, "attention_mask": mask, self._cache_name: cache, "use_cache": True}
        given["logits_to_keep"] = 1
        if self._takes_positions:
            given["position_ids"] = positions
        return given

    def _logits(self, inputs: Mapping[str, Any]) -> Tensor:
        return self._model(**inputs).logits[:, -1]


def float_type(model: Any) -> Any:
    """The type of the model's embeddings, which its other inputs share."""
    return model.get_input_embeddings().weight.dtype


def vocabulary_size(model: Any) -> int:
    """How many tokens the model's embeddings have."""
    rows = getattr(model.get_input_embeddings(), "num_embeddings", None)
    return model.config.get_text_config().vocab_size if rows is None else rows


def grid_positions(model: Any) -> Callable[..., tuple[Tensor, Tensor]] | None:
    """The model's own way to positions where images have rows and columns (Qwen2-VL's M-RoPE), if it has one.

    Returns (3, U, P) positions, and (U, 1): how far what follows is shifted.
    """
    own = getattr(getattr(base_of(model), "model", None), "get_rope_index", None)
    if own is None:
        return None
    known = signature(own).parameters
    return lambda ids, **inputs: own(ids, **{name: value for name, value in inputs.items() if name in known})


def cache_name(model: Any) -> str:
    """What the model's forward calls its KV cache: `cache`, earlier `past_key_values`."""
    return "cache" if "cache" in _parameters(model) else "past_key_values"


def _parameters(model: Any) -> Mapping[str, Any]:
    return signature(base_of(model).forward).parameters


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
