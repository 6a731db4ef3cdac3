"""From the text of a completion to an assistant message and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .calls import ToolCall
from .formats import Format, Reading, bare_json, hermes, llama, llama_tag, mistral, xml
from .marked import deepseek, gemma, glm, harmony, harmony_thinking, pythonic
from .values import Types

FORMATS: tuple[Format, ...] = (gemma, deepseek, harmony, pythonic, mistral, glm, hermes, xml, llama)
"""The formats of model families. The one that reads back what a template writes is the template's."""


def _glm_by_arguments(text: str, types: Types, repair: bool = False) -> Reading | None:
    """GLM shares its tags with Hermes; in a text of unknown origin its arguments tell them apart."""
    return glm(text, types, repair) if "<arg_key>" in text else None


TEXT_FORMATS: tuple[Format, ...] = (
    *(_glm_by_arguments, hermes, xml, mistral, llama_tag, bare_json),
    *(deepseek, harmony, gemma, pythonic),
)
"""For a text of unknown origin, in this order."""

_THINKING: dict[Format, tuple[str, str]] = {gemma: ("<|channel>thought\n", "<channel|>")}


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model wrote in one turn: reasoning apart, content, and calls."""

    content: str
    calls: list[ToolCall]
    reasoning: str | None = None


def read_tool_calls(text: str, repair: bool = False) -> list[ToolCall]:
    """The calls of a text in whichever known format it uses; malformed ones carry an `error`. [] when none is made.

    `repair` also reads Python literals (single quotes, True, None) where JSON is wanted.
    """
    for read in TEXT_FORMATS:
        reading = read(text, {}, repair)
        if reading is not None and (reading[1] or read is not harmony):
            return reading[1]
    return []


def read_turn(text: str, read: Format, types: Types, *, thinks: bool) -> Turn:
    """One turn's text by its family's format.

    `thinks`: the template knows reasoning in `<think>` tags, which the prompt may have opened.
    """
    if read is harmony:
        content, calls = read(text, types, False) or (text, [])
        return Turn(content, calls, harmony_thinking(text) or None)
    begin, end = _THINKING.get(read, ("<think>", "</think>"))
    reasoning, rest = _without_reasoning(text, begin, end) if thinks or read in _THINKING else (None, text)
    content, calls = read(rest, types, False) or (rest, [])
    return Turn(content, calls, reasoning)


def _without_reasoning(text: str, begin: str, end: str) -> tuple[str | None, str]:
    head, mark, rest = text.partition(end)
    starts = text.lstrip().startswith(begin.strip())
    if mark:
        return head.partition(begin)[2].strip("\n") if starts else head.strip("\n"), rest.lstrip("\n")
    if starts:  # cut off while thinking: nothing was said, and no call was made
        return head.partition(begin)[2].strip("\n"), ""
    return None, text


def as_message(turn: Turn, thinking_key: str) -> dict[str, Any]:
    """The assistant message, with the well-formed calls; the malformed ones are not part of a conversation."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.content}
    if turn.reasoning:
        message[thinking_key] = turn.reasoning
    calls = [call.as_message() for call in turn.calls if call.error is None]
    return {**message, "tool_calls": calls} if calls else message


def strip_marks(text: str, marks: Sequence[str]) -> str:
    """The text without these marks."""
    for mark in marks:
        text = text.replace(mark, "")
    return text
