"""What a vision-language model is given of a prompt beside its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Media:
    """The images of one prompt as tensors, by the names of the model's arguments. Two are equal if they are one.

    `inputs`: their first dimension counts images, or parts of them, in the order of the prompt. `by_token`: (P,) int64,
    one value a prompt token, such as which are images. `sources`: the images as they were given (a picture, a path, an
    address), for engines that look at them themselves; not kept in checkpoints.
    """

    inputs: Mapping[str, Tensor]
    by_token: Mapping[str, Tensor]
    sources: tuple[Any, ...] = ()

    def changed(self, change: Callable[[Tensor], Tensor]) -> Media:
        """With every tensor changed."""
        parts = (self.inputs, self.by_token)
        inputs, by_token = ({name: change(value) for name, value in part.items()} for part in parts)
        return Media(inputs, by_token, self.sources)

    def pictures(self) -> list[Any]:
        """The images as RGB pictures (PIL), each opened anew."""
        from transformers.image_utils import load_image

        return [load_image(source) if isinstance(source, str) else _as_picture(source) for source in self.sources]


def images_of(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The images in the content blocks of messages, in order; loaded where a path or an address is given."""
    return [_loaded(source) for source in sources_of(messages)]


def sources_of(messages: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The same as they were given. Raises UsageError on a block without an image."""
    contents = [message.get("content") for message in messages]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return [_source(block) for block in blocks if isinstance(block, Mapping) and block.get("type") == "image"]


def media_of(found: Mapping[str, Tensor], tokens: int, sources: Sequence[Any] = ()) -> Media | None:
    """What a processor gave for one text of so many tokens, beside ids and mask; `sources` are its images."""
    rest = {name: value for name, value in found.items() if name not in ("input_ids", "attention_mask")}
    by_token = {name for name, value in rest.items() if name.endswith("token_type_ids") and value.shape == (1, tokens)}
    media = Media(
        {name: value for name, value in rest.items() if name not in by_token},
        {name: rest[name][0] for name in rest if name in by_token},
        tuple(sources),
    )
    return media if rest else None


def joined(first: Media | None, tokens: int, second: Media | None, more: int) -> Media | None:
    """The media of a text of `tokens` tokens with `first`, and `more` tokens with `second` after it.

    Of `first`, values by token may be of fewer tokens: 0 from there on.
    """
    if second is None:
        return first
    parts = [first or Media({}, {}), second]
    inputs = {
        name: _stacked([one.inputs[name] for one in parts if name in one.inputs])
        for name in dict.fromkeys(name for one in parts for name in one.inputs)
    }
    by_token = {}
    for name in dict.fromkeys(name for one in parts for name in one.by_token):
        known = next(one.by_token[name] for one in parts if name in one.by_token)
        by_token[name] = known.new_zeros(tokens + more)
        for start, one in zip((0, tokens), parts, strict=True):
            values = one.by_token.get(name, known[:0])
            by_token[name][start : start + len(values)] = values
    return Media(inputs, by_token, tuple(source for one in parts for source in one.sources))


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


def _source(block: Mapping[str, Any]) -> Any:
    found = next((block[key] for key in ("image", "path", "url", "base64") if block.get(key) is not None), None)
    if found is None:
        raise UsageError("a message has an image block without an image; give {'type': 'image', 'image': a picture}")
    return found


def _loaded(source: Any) -> Any:
    if not isinstance(source, str):
        return source
    from transformers.image_utils import load_image

    return load_image(source)


def _as_picture(image: Any) -> Any:
    """A picture in RGB, as image processors turn it; alpha is dropped."""
    from transformers.image_transforms import to_pil_image
    from transformers.image_utils import is_valid_image

    if not is_valid_image(image):
        raise UsageError(f"an image is a {type(image).__name__}; give a picture (PIL), an array, a path or an address")
    return (image if hasattr(image, "convert") else to_pil_image(image)).convert("RGB")


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
