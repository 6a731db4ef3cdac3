"""Which part of a completion can hold the answer: after the reasoning, inside answer tags."""

from __future__ import annotations

import re

_CLOSING = re.compile(
    r"</(?:think|thinking|thought|reasoning|seed:think)\s*>|<\|end_of_thought\|>|◁/think▷|\[/THINK\]", re.IGNORECASE
)
_OPENING = re.compile(
    r"<(?:think|thinking|thought|reasoning|seed:think)\s*>|<\|begin_of_thought\|>|◁think▷|\[THINK\]", re.IGNORECASE
)
_STOPS = ("<|im_end|>", "<|im_start|>user", "<|eot_id|>", "<|endoftext|>", "</s>", "<|end|>", "<eos>", "<end_of_turn>")


def final_part(text: str) -> str:
    """What follows the last closed block of reasoning and precedes one that is never closed."""
    start, end = 0, len(text)
    for found in _CLOSING.finditer(text):
        start = found.end()
    opened = _OPENING.search(text, start)
    if opened:
        end = opened.start()
    return text[start:end]


def answer_part(text: str) -> str | None:
    """The inside of the last <answer>…</answer>, if there is one."""
    lowered = text.lower() if "<" in text else ""
    end = lowered.rfind("</answer>")
    start = lowered.rfind("<answer>", 0, end) if end >= 0 else lowered.rfind("<answer>")
    if start < 0:
        return None
    return text[start + len("<answer>") : end if end >= 0 else len(text)]


def without_stop_marks(text: str) -> str:
    """What stands before the first end mark of a chat template that was decoded into the text."""
    for mark in _STOPS:
        place = text.find(mark)
        if place > 0 and text[:place].strip():
            text = text[:place]
    return text.rstrip()
