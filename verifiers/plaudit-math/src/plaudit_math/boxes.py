"""\\boxed answers, found in one pass over the text."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_BOXES = 64
"""Only the last ones can matter."""

_MARK = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_ONE_TOKEN = re.compile(r"\s*(\\[A-Za-z]+|[A-Za-z\d])")


class Box(NamedTuple):
    """`content` is None when the box is never closed; start and end are places in the text."""

    content: str | None
    start: int
    end: int


def boxes(text: str) -> list[Box]:
    """The outermost boxes, in order; the last 64."""
    marks = [found.span() for found in _MARK.finditer(text)][-4 * MAX_BOXES :]
    if not marks:
        return []
    closing = _partners(text, marks[0][0])
    found: list[Box] = []
    for start, end in marks:
        if found and start < found[-1].end:
            continue
        box = _box(text, start, end, closing)
        if box is not None:
            found.append(box)
    return found[-MAX_BOXES:]


def _box(text: str, start: int, end: int, closing: dict[int, int]) -> Box | None:
    place = end
    while place < len(text) and text[place].isspace() and place < end + 8:
        place += 1
    if text[place : place + 1] == "{":
        partner = closing.get(place)
        return Box(None, start, end) if partner is None else Box(text[place + 1 : partner], start, partner + 1)
    token = _ONE_TOKEN.match(text, end)
    if token is None:
        return None
    stop = token.end()
    while token[1][0] == "\\" and text[stop : stop + 1] == "{" and stop in closing:
        stop = closing[stop] + 1
    return Box(text[token.start(1) : stop], start, stop)


def _partners(text: str, start: int) -> dict[int, int]:
    """The closing brace of each opening one."""
    stack: list[int] = []
    partner: dict[int, int] = {}
    for found in _BRACE.finditer(text, start):
        if found[0] == "{":
            stack.append(found.start())
        elif found[0] == "}" and stack:
            partner[stack.pop()] = found.start()
    return partner
