"""Rows with images: columns `image` and `images` become content blocks of the prompt, as TRL makes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...errors import UsageError
from ...types import Message, Text

COLUMNS = ("images", "image")


def prompt_with_images(record: Mapping[str, Any]) -> Text:
    """The record's prompt, with its images in it if it has a column of them.

    Raises UsageError when the prompt is a string, or has another number of placeholders than there are images.
    """
    prompt = record["prompt"]
    column = next((name for name in COLUMNS if name in record), None)
    if column is None:
        return prompt
    value = record[column]
    images = [_opened(image) for image in ([] if value is None else [value] if column == "image" else value)]
    if isinstance(prompt, str):
        if not images:
            return prompt
        raise UsageError(
            f"a row has a column {column!r} but its prompt is a string; give a conversation, for the chat template "
            f"puts the image's tokens in: [{{'role': 'user', 'content': {prompt[:30]!r}}}]"
        )
    return with_blocks(prompt, images)


def with_blocks(messages: Sequence[Message], images: Sequence[Any] = ()) -> list[Message]:
    """The messages with every content as blocks, and the images in their places: those that blocks leave open, else
    before the text of the first user message.
    """
    waiting = list(images)
    open_places = sum(_is_open(block) for message in messages for block in _blocks(message))
    found = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            before: list[Any] = []
            if message.get("role") == "user" and not open_places and waiting:
                before, waiting = [{"type": "image", "image": image} for image in waiting], []
            message = {**message, "content": [*before, {"type": "text", "text": content}]}
        elif content is not None:
            filled = [{**block, "image": waiting.pop(0)} if _is_open(block) and waiting else block for block in content]
            message = {**message, "content": filled}
        found.append(message)
    if waiting or open_places > len(images):
        raise UsageError(
            f"a row has {len(images)} images, but its prompt has places for {open_places}; give one "
            "{'type': 'image'} block for each, or a plain text as the content of a user message"
        )
    return found


def images_in(prompt: Text) -> list[Any]:
    """The images of a prompt, in order."""
    return [] if isinstance(prompt, str) else [block["image"] for block in _image_blocks(prompt) if "image" in block]


def without_images(text: Text) -> Text:
    """The messages with image blocks that say only that there was one, as tables keep them."""
    if isinstance(text, str):
        return text
    return [
        message
        if not isinstance(message.get("content"), list)
        else {**message, "content": [{"type": "image"} if _is_image(block) else block for block in message["content"]]}
        for message in text
    ]


def _opened(image: Any) -> Any:
    """The picture of a file's bytes, as parquet files hold images; anything else the processor opens."""
    if not (isinstance(image, Mapping) and image.get("bytes")):
        return image
    from io import BytesIO

    from PIL import Image

    return Image.open(BytesIO(image["bytes"])).convert("RGB")


def _blocks(message: Message) -> Sequence[Any]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _image_blocks(messages: Sequence[Message]) -> Iterator[Any]:
    return (block for message in messages for block in _blocks(message) if _is_image(block))


def _is_image(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "image"


def _is_open(block: Any) -> bool:
    return _is_image(block) and "image" not in block
