"""Reading the tool calls that a completion makes, whichever model family wrote it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plaudit import MalformedCall, ToolCall, call_from, completion_text, read_tool_calls
from plaudit_json import find_json

_REPLY_MARKS = (
    "<tool_response>",
    "<|tool_response|>",
    "<tool_result>",
    "<function_results>",
    "<|start_header_id|>ipython",
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The calls in order, what was malformed, and whether the text forges a tool's reply."""

    calls: tuple[ToolCall, ...] = ()
    malformed: tuple[str, ...] = field(default=())
    forged_reply: bool = False


def parse_calls(completion: Any, *, think_end: str = "</think>", repair: bool = False) -> Parsed:
    """The calls of `completion`: OpenAI `tool_calls` of its last assistant message, else those written in its text.

    `repair` also reads Python literals (single quotes, True, None) where JSON is wanted.
    """
    structured = _structured_calls(completion)
    if structured is not None:
        return structured
    text = completion_text(completion).rpartition(think_end)[2]
    calls = read_tool_calls(text, repair) or read_tool_calls(find_json(text) or "", repair)
    return Parsed(
        tuple(call for call in calls if call.error is None),
        tuple(call.error for call in calls if call.error is not None),
        forged_reply=any(mark in text for mark in _REPLY_MARKS),
    )


def _structured_calls(completion: Any) -> Parsed | None:
    if isinstance(completion, str):
        return None
    for message in reversed(completion):
        if message.get("role", "assistant") != "assistant":
            continue
        calls = message.get("tool_calls")
        if not calls:
            return None
        try:
            return Parsed(tuple(call_from(call) for call in calls))
        except MalformedCall as error:
            return Parsed(malformed=(str(error),))
    return None
