"""Messages between a dialogue here and one in OpenAI's form, as other systems keep it."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import PlauditError
from plaudit.rollout.chat import ToolCall
from plaudit.types import Message


class ChangedDialogue(PlauditError):
    """A dialogue was gone on from otherwise than it stands; its tokens could not be kept as they were sampled."""


def said_of(message: Mapping[str, Any], calls: Sequence[ToolCall]) -> Message:
    """A turn of the model in OpenAI's form. A call that cannot be read has what is wrong with it as arguments."""
    said: Message = {"role": "assistant", "content": message.get("content") or ""}
    reasoning = message.get("reasoning_content") or message.get("thinking")
    if reasoning:
        said["reasoning_content"] = reasoning
    if calls:
        said["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name or "unknown",
                    "arguments": call.error or json.dumps(call.arguments, ensure_ascii=False),
                },
            }
            for call in calls
        ]
    return said


def message_of(message: Mapping[str, Any], dialogue: Sequence[Mapping[str, Any]]) -> Message:
    """A message of another system as one here; a tool's answer is given the name of the call in `dialogue`.

    Raises ChangedDialogue on content that is neither text nor an image that comes with it.
    """
    found: Message = {"role": message["role"], "content": _content(message.get("content"))}
    if message["role"] == "tool":
        calls = [call for one in dialogue for call in one.get("tool_calls") or []]
        names = {call.get("id"): call["function"]["name"] for call in calls}
        found["tool_call_id"] = message.get("tool_call_id")
        found["name"] = names.get(message.get("tool_call_id")) or message.get("name") or "tool"
    return found


def grown(known: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What `messages` add to `known`. Raises ChangedDialogue unless they begin with it."""
    for place, one in enumerate(known):
        there = messages[place] if place < len(messages) else None
        if there is None or there.get("role") != one.get("role") or _text(there) != _text(one):
            raise ChangedDialogue(
                f"message {place} of the dialogue is {_shown(there)} now, but it was {_shown(one)}; only a dialogue "
                "that grows at its end can be learnt from"
            )
    return list(messages[len(known) :])


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content or ""
    if all(part.get("type") == "text" for part in content):
        return "\n".join(part["text"] for part in content)
    return [_part(part) for part in content]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part.get("type") == "text":
        return {"type": "text", "text": part["text"]}
    url = str((part.get("image_url") or {}).get("url", ""))
    if not url.startswith("data:image/"):
        raise ChangedDialogue(f"content of type {part.get('type')!r} ({url[:40]}) cannot be shown to the model")
    from PIL import Image

    return {"type": "image", "image": Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", part)) for part in content)
    return str(content or "").strip()


def _shown(message: Mapping[str, Any] | None) -> str:
    return "missing" if message is None else f"{message.get('role')} {_text(message)[:40]!r}"
