"""What a vision-language model is given of a prompt beside its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Media:
    """The images of one prompt as tensors, by the names of the model's arguments. Two are equal if they are one.

    `inputs`: their first dimension counts images, or parts of them, in the order of the prompt. `by_token`: (P,) int64,
    one value a prompt token, such as which are images.
    """

    inputs: Mapping[str, Tensor]
    by_token: Mapping[str, Tensor]

    def changed(self, change: Callable[[Tensor], Tensor]) -> Media:
        """With every tensor changed."""
        parts = (self.inputs, self.by_token)
        return Media(*({name: change(value) for name, value in part.items()} for part in parts))


def model_inputs(
    media: Sequence[Media | None], starts: Sequence[int], width: int, *, dtype: Any, device: Any
) -> dict[str, Any]:
    """The arguments that B prompts have together; none where no prompt has media.

    `starts`: (B,) where each prompt begins in rows of `width` tokens; values by token are (B, width), 0 elsewhere.
    Images of unequal size are padded with zeros, which is how the models know padding. `dtype`: what they become.
    """
    found = [one for one in media if one is not None]
    joined: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in found for name in one.inputs):
        value = _stacked([one.inputs[name] for one in found if name in one.inputs])
        joined[name] = value.to(device, dtype if value.is_floating_point() else value.dtype)
    for name in dict.fromkeys(name for one in found for name in one.by_token):
        rows = [one.by_token.get(name) if one is not None else None for one in media]
        joined[name] = _by_token(rows, starts, width).to(device)
    return joined


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """One after another along the first dimension; the others as large as the largest."""
    sizes = [max(part.shape[place] for part in parts) for place in range(1, parts[0].ndim)]
    whole = parts[0].new_zeros(sum(len(part) for part in parts), *sizes)
    begin = 0
    for part in parts:
        whole[(slice(begin, begin + len(part)), *(slice(size) for size in part.shape[1:]))] = part
        begin += len(part)
    return whole


def _by_token(rows: Sequence[Tensor | None], starts: Sequence[int], width: int) -> Tensor:
    known = next(row for row in rows if row is not None)
    table = known.new_zeros(len(rows), width)
    for place, (row, start) in enumerate(zip(rows, starts, strict=True)):
        if row is not None:
            end = min(width, start + len(row))
            table[place, start:end] = row[: end - start]
    return table
