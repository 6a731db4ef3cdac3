"""Reading the tool calls that a completion makes, whichever model family wrote it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from plaudit import completion_text
from plaudit_json import BadJson, find_json, parse_json


@dataclass(frozen=True, slots=True)
class Call:
    """One call: the tool's name and its arguments by name."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Parsed:
    """The calls in order, what was malformed, and whether the text forges a tool's reply."""

    calls: tuple[Call, ...] = ()
    malformed: tuple[str, ...] = field(default=())
    forged_reply: bool = False


class MalformedCall(ValueError):
    """Something that is marked as a call but cannot be read as one."""


Format = Callable[[str], "list[Call] | None"]
"""Reads a text in one format: its calls, or None where the text does not use the format. Raises MalformedCall."""


def parse_calls(completion: Any, *, think_end: str = "</think>", repair: bool = False) -> Parsed:
    """The calls of `completion`: OpenAI `tool_calls` of its last assistant message, else those written in its text.

    `repair` also reads Python literals (single quotes, True, None) where JSON is wanted.
    """
    from plaudit_toolcall.formats import FORMATS, forges_reply

    structured = _structured_calls(completion)
    if structured is not None:
        return structured
    text = completion_text(completion).rpartition(think_end)[2]
    for read in FORMATS:
        try:
            calls = read(text, repair)
        except MalformedCall as error:
            return Parsed(malformed=(str(error),), forged_reply=forges_reply(text))
        if calls is not None:
            return Parsed(tuple(calls), forged_reply=forges_reply(text))
    return Parsed(forged_reply=forges_reply(text))


def call_from(value: Any, repair: bool = False) -> Call:
    """A call from its JSON form: `{"name", "arguments" | "parameters"}`, or OpenAI's `{"function": {…}}` around it.

    Arguments may be an object or a string that holds one. Raises MalformedCall.
    """
    if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
        value = value["function"]
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or not value["name"]:
        raise MalformedCall("a call needs a 'name'")
    arguments = value.get("arguments", value.get("parameters"))
    if isinstance(arguments, str):
        arguments = read_json(arguments, repair) if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise MalformedCall(f"the arguments of {value['name']!r} are not an object")
    return Call(value["name"], arguments)


def read_json(source: str, repair: bool = False) -> Any:
    """A strict JSON value; with `repair`, a Python literal too. Raises MalformedCall."""
    try:
        return parse_json(source.strip())
    except BadJson as error:
        if repair:
            import ast

            try:
                return ast.literal_eval(source.strip())
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                pass  # not a literal either: report what JSON said
        raise MalformedCall(f"not strict JSON: {error}") from error


def whole_json(text: str) -> Any:
    """The JSON value that the text is, alone or in its one block, or None."""
    source = find_json(text)
    if source is None or not source.strip().startswith(("{", "[")):
        return None
    try:
        return parse_json(source)
    except BadJson:
        return None


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
