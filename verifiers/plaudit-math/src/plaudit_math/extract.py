"""The extraction policy: which text of a completion is its answer."""

from __future__ import annotations

import re
from typing import NamedTuple

from plaudit_math import prose, scope, surface
from plaudit_math.boxes import Box, boxes
from plaudit_math.hedging import conflicting, joined
from plaudit_math.policy import Policy
from plaudit_math.reading import styling_removed


class Extracted(NamedTuple):
    """`text` is None where there is no answer; `how` says where it was found, or why not."""

    text: str | None
    how: str


_DENIED_BEFORE = re.compile(
    r"(?:\bnot|n't|\\ne|\\neq|≠|\bnever|rather than|instead of|不是)\s*(?:equal to|be)?\s*\$?\s*$", re.IGNORECASE
)
_DENIED_AFTER = re.compile(r"\s*\$?\s*(?:is|was)\s+(?:wrong|incorrect|not|false)\b", re.IGNORECASE)
_HEADING = re.compile(
    r"\s*(?:step|final|solution|answer|part|case|check|conclusion|problem|method|note|summary)\b", re.IGNORECASE
)
MAX_COMPLETION = 4_000_000
"""Longer completions are cut at the front: an answer stands at the end."""


def extract(completion: str, policy: Policy) -> Extracted:
    """Last box, else #### mark, else final-answer line, else the last sentence; after the reasoning."""
    text = scope.without_stop_marks(surface.plain(completion[-MAX_COMPLETION:]))
    text = text.replace("\x08oxed", "\\boxed")
    if policy.scope == "final":
        text = scope.final_part(text)
    if not text.strip():
        return Extracted(None, "no text after the reasoning")
    tagged = scope.answer_part(text)
    if tagged is not None:
        text = tagged
    if not text.strip():
        return Extracted(None, "the answer tags are empty")
    found = boxes(text) if "\\boxed" in text or "box{" in text else []
    if found:
        return _from_boxes(text, found)
    if policy.require_box:
        return Extracted(None, "no \\boxed answer")
    return _from_text(text)


def _from_boxes(text: str, found: list[Box]) -> Extracted:
    last = found[-1]
    if last.content is None:
        return Extracted(None, "the last box is never closed")
    if not styling_removed(last.content):
        return Extracted(None, "the last box is empty")
    if _DENIED_BEFORE.search(text[max(0, last.start - 40) : last.start]) or _DENIED_AFTER.match(text, last.end):
        return Extracted(None, "the boxed answer is denied")
    chosen = [last]
    for box in reversed(found[:-1]):
        gap = text[box.end : chosen[0].start]
        same = box.content is not None and styling_removed(box.content) == styling_removed(chosen[0].content or "")
        if same or not box.content:
            break
        if not joined(gap) and not conflicting(gap):
            break
        chosen.insert(0, box)
    how = "last box" if len(chosen) == 1 else f"the last {len(chosen)} boxes, side by side"
    return Extracted(" , ".join(box.content or "" for box in chosen), how)


def _from_text(text: str) -> Extracted:
    marked = _after_hashes(text)
    if marked:
        return Extracted(marked, "#### mark")
    tail = text[-20_000:]
    marked = prose.marked(tail)
    if marked:
        return Extracted(marked, "final-answer line")
    found = prose.unmarked(tail)
    return Extracted(found, "last sentence") if found else Extracted(None, "no single answer is stated")


def _after_hashes(text: str) -> str | None:
    place = text.rfind("####")
    if place < 0:
        return None
    line = next((line.strip() for line in text[place:].lstrip("#").split("\n", 3) if line.strip()), "")
    if not line or _HEADING.match(line) or len(line) > 400:
        return None
    return prose.usable(line)
