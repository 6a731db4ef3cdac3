"""Reading <tag>…</tag> blocks in linear time: how often a tag occurs, and what stands in and around the blocks."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Block:
    """One `<tag>inside</tag>`: `start` and `end` are offsets of the whole block, tags included."""

    tag: str
    start: int
    end: int
    inside: str


def only_block(text: str, tag: str) -> Block | None:
    """The block of `tag` when the text holds exactly one opening and one closing tag, in that order; else None."""
    opening, closing = f"<{tag}>", f"</{tag}>"
    if text.count(opening) != 1 or text.count(closing) != 1:
        return None
    start, close = text.index(opening), text.index(closing)
    if close < start + len(opening):
        return None
    return Block(tag, start, close + len(closing), text[start + len(opening) : close])


def is_blank(text: str) -> bool:
    """Nothing that a reader can see: whitespace, and format or control characters such as a zero-width space."""
    return all(char.isspace() or unicodedata.category(char) in ("Cf", "Cc") for char in text)


def boxed(text: str) -> list[str]:
    """What stands in each `\\boxed{…}` whose braces balance, in order."""
    found = []
    position = text.find("\\boxed{")
    while position >= 0:
        inside = position + len("\\boxed{")
        end = _closing_brace(text, inside)
        if end is None:
            break
        found.append(text[inside:end])
        position = text.find("\\boxed{", end)
    return found


def _closing_brace(text: str, start: int) -> int | None:
    depth, position = 1, start
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 1
        elif char == "{":
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None
