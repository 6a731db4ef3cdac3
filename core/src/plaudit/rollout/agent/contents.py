"""What tools and environments give, as contents of messages: text, or content blocks such as images."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ...plugins.importing import describe_error
from ...scoring.jobs import JobResult
from ...scoring.outcome import Failure


def is_blocks(value: Any) -> bool:
    """Whether it is a list of content blocks: `{"type": "text", "text": …}` and the like."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, Mapping) and isinstance(one.get("type"), str) for one in value)
    )


def is_messages(value: Any) -> bool:
    """Whether it is a list of messages."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) and "role" in one for one in value)


def message_fault(message: Mapping[str, Any], roles: Collection[str] | None = None) -> str | None:
    """What is wrong with a message, if something is; `roles`: who may speak, None = anyone."""
    role, content = message["role"], message.get("content")
    if not isinstance(role, str) or (roles is not None and role not in roles):
        return f"a message of role {role!r}; expected one of {', '.join(roles or ('user', 'assistant'))}"
    calls = role == "assistant" and bool(message.get("tool_calls"))
    if not isinstance(content, str) and not is_blocks(content) and not (calls and content is None):
        return f"a message with the content {content!r:.60}; expected text or content blocks"
    return None


def content_of(value: Any) -> str | list[Any]:
    """What a tool returned as the model reads it: content blocks as they are, anything else as text."""
    return cleaned(value if is_blocks(value) else str(value))


def cleaned(value: Any) -> Any:
    """Text without halves of surrogate pairs, which no tokenizer and no file takes; also within lists and dicts."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [cleaned(one) for one in value]
    if isinstance(value, Mapping):
        return {key: cleaned(one) for key, one in value.items()}
    return value


def readable(result: JobResult) -> JobResult:
    """A tool's result with its value as content; one that cannot be written as text is a failure."""
    if result.failure is not None:
        return result
    try:
        return replace(result, value=content_of(result.value))
    except Exception as error:
        what = f"its answer, a {type(result.value).__name__}, cannot be written as text: {describe_error(error)}"
        return JobResult(None, Failure("contract", what), result.seconds)
