"""Where a completion holds its JSON: the whole text, or its one fenced block."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n`]*$")
_JSON_TAGS = ("", "json")


@dataclass(frozen=True, slots=True)
class Fence:
    """A fenced block: its language tag in lower case, and the lines inside."""

    tag: str
    body: str


def fences(text: str) -> list[Fence]:
    """The fenced blocks of Markdown `text`, in order. A block that is never closed runs to the end of the text."""
    found: list[Fence] = []
    marker, tag, body = "", "", []
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if not marker and match:
            marker, tag, body = match.group(1), match.group(2).lower(), []
        elif marker and match and match.group(1).startswith(marker) and not match.group(2):
            found.append(Fence(tag, "\n".join(body)))
            marker = ""
        elif marker:
            body.append(line)
    if marker:
        found.append(Fence(tag, "\n".join(body)))
    return found


def find_json(text: str, *, fenced: bool = True, embedded: bool = False) -> str | None:
    """The JSON source in `text`: the one block tagged json (or untagged), else the whole text; None if unclear.

    Two JSON blocks are unclear. `fenced=False` takes the whole text only. `embedded` also takes the outermost object
    or array that stands among prose.
    """
    whole = text.strip()
    if fenced:
        blocks = fences(whole)
        ours = [block for block in blocks if block.tag in _JSON_TAGS]
        if len(ours) == 1:
            return ours[0].body
        if blocks:
            return None
    return _outermost(whole) if embedded else whole


def _outermost(text: str) -> str | None:
    starts = [position for position in (text.find("{"), text.find("[")) if position >= 0]
    end = max(text.rfind("}"), text.rfind("]"))
    return text[min(starts) : end + 1] if starts and end > min(starts) else None
