"""Decoding with static shapes: a step that can be compiled, or captured once as a CUDA graph and replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from .caches import whole_cache
from .decoders import ModuleDecoder

if TYPE_CHECKING:
    from torch import Tensor

    from .media import Media

GROWTH = 64

Step = Callable[[], "Tensor"]
Capture = Callable[[Step], Step]
"""Given a step that reads and writes the same tensors each time, returns what repeats it. It may run the step."""


def forward_step(model: Any, inputs: Mapping[str, Any]) -> Tensor:
    """The next token's logits, (W, V)."""
    return model(**inputs).logits[:, -1]


class StaticDecoder:
    """W rows in a cache of C columns, written in place by a step whose inputs are the same tensors each time.

    C grows by half when it is full, and W shrinks once half of the rows have left: in between a row that has left is
    computed along, unseen. So a step has few shapes, about log2(W) + 2 log2(C), however many rows and steps there are.
    The layers with a sliding window keep all columns too, and the model's mask hides what is outside.
    """

    def __init__(
        self,
        model: Any,
        *,
        longest: int,
        forward: Callable[[Any, Mapping[str, Any]], Tensor] = forward_step,
        capture: Capture | None = None,
    ) -> None:
        """`longest`: tokens of the longest row that may come. `forward`: `forward_step`, perhaps compiled.

        `capture`: what makes a step cheap to repeat, until the shapes change.
        """
        self._model = model
        self._longest = longest
        self._forward = forward
        self._capture = capture
        self._prompts = ModuleDecoder(model, whole_cache())
        self._layers: list[Any] = []
        self._length = 0
        self._columns = 0  # none yet: the cache is still that of the prompts
        self._slots: Tensor | None = None  # (M,): where the rows that are left are among the W; None = in their order
        self._tokens: Tensor  # (W, 1)
        self._positions: Tensor  # (W, 1)
        self._mask: Tensor | None = None  # (W, C): 0 on padding
        self._repeat: Step | None = None

    @property
    def width(self) -> int:
        """Rows of the cache."""
        return len(self._tokens)

    def prefill(self, prompts: Sequence[Sequence[int]], media: Sequence[Media | None] = ()) -> Tensor:
        """Compute U prompts by the model's own forward, with a cache that is no longer than they are. (U, V)."""
        logits = self._prompts.prefill(prompts, media)
        self._layers = self._prompts.cache.layers
        self._positions, self._mask = self._prompts.positions, self._prompts.mask
        self._length = max(map(len, prompts))
        self._tokens = self._positions.new_zeros(len(prompts), 1)
        return logits

    def select(self, rows: Tensor) -> None:
        """Keep or repeat rows; while more than half of the cache's are kept, by noting which they are."""
        slots = rows if self._slots is None else self._slots[rows]
        if 2 * len(slots) <= self.width or len(set(slots.tolist())) < len(slots):
            self._lay_out(slots)
        else:
            self._slots = slots

    def step(self, tokens: Tensor) -> Tensor:
        """One more token a row. Returns (M, V), which holds until the next step."""
        if self._length >= self._columns:
            self._lay_out(self._slots)
        if self._repeat is None:
            self._repeat = self._repeated()
        self._positions.add_(1)
        if self._slots is None:
            self._tokens[:, 0] = tokens
        else:
            self._tokens[self._slots, 0] = tokens
        logits = self._repeat()
        self._length += 1
        return logits if self._slots is None else logits[self._slots]

    def _lay_out(self, rows: Tensor | None) -> None:
        """Copy the cache to tensors of other shapes: with these rows, or all, and with columns yet to be written."""
        from torch.nn.functional import pad
        from transformers import StaticLayer

        self._columns = min(self._longest, self._length + max(GROWTH, self._length // 2))
        self._repeat = self._slots = None
        for place, layer in enumerate(self._layers):
            # One layer after another, so that no more than one is there twice.
            states = (layer.keys, layer.values)
            kept = [(state if rows is None else state.index_select(0, rows))[:, :, : self._length] for state in states]
            self._layers[place] = wider = StaticLayer(self._columns)
            wider.update(*kept)
        if rows is not None:
            self._tokens, self._positions = self._tokens[rows], self._positions[rows]
            self._mask = None if self._mask is None else self._mask[rows]
        if self._mask is not None:
            self._mask = pad(self._mask[:, : self._length], (0, self._columns - self._length), value=1)

    def _repeated(self) -> Step:
        from transformers import Cache

        cache = Cache(layers=self._layers)
        inputs = self._prompts.inputs(self._tokens, self._positions, self._mask, cache)
        step: Step = partial(self._forward, self._model, inputs)
        if self._capture is None:
            return step
        step = self._capture(step)
        for layer in self._layers:
            layer.cumulative_length.fill_(self._length)  # where capturing has run the step, it has moved on
        return step
