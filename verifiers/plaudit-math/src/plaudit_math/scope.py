"""Which part of a completion can hold the answer: after the reasoning, inside answer tags."""

from __future__ import annotations

_CLOSERS = (
    "</think>",
    "</thinking>",
    "</thought>",
    "</reasoning>",
    "<|end_of_thought|>",
    "◁/think▷",
    "[/THINK]",
    "</seed:think>",
)
_OPENERS = (
    "<think>",
    "<thinking>",
    "<thought>",
    "<reasoning>",
    "<|begin_of_thought|>",
    "◁think▷",
    "[THINK]",
    "<seed:think>",
)
_STOPS = ("<|im_end|>", "<|im_start|>user", "<|eot_id|>", "<|endoftext|>", "</s>", "<|end|>", "<eos>", "<end_of_turn>")


def final_part(text: str) -> str:
    """What follows the last closed block of reasoning and precedes one that is never closed."""
    start = 0
    for mark in _CLOSERS:
        place = text.rfind(mark)
        if place >= 0:
            start = max(start, place + len(mark))
    end = len(text)
    for mark in _OPENERS:
        place = text.find(mark, start)
        if place >= 0:
            end = min(end, place)
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
