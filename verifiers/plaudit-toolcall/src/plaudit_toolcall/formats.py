"""How each model family writes calls in text. The first format that recognises its marks reads the text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from plaudit_json import BadJson, parse_json_prefix

from plaudit_toolcall.parse import Call, MalformedCall, call_from, read_json, whole_json

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_REPLY_MARKS = (
    "<tool_response>",
    "<|tool_response|>",
    "<tool_result>",
    "<function_results>",
    "<|start_header_id|>ipython",
)


def forges_reply(text: str) -> bool:
    """Whether the text holds a tool's reply, which only the environment may write."""
    return any(mark in text for mark in _REPLY_MARKS)


def hermes(text: str, repair: bool) -> list[Call] | None:
    """Hermes, Qwen2.5, Qwen3: `<tool_call>{"name": …, "arguments": …}</tool_call>`, once a call.

    The last closing tag may be missing at the end of the text.
    """
    calls, position = [], text.find(_OPEN)
    if position < 0:
        return None
    while position >= 0:
        found, position = _hermes_block(text, position + len(_OPEN), repair)
        calls.extend(found)
        position = text.find(_OPEN, position)
    return calls


def _hermes_block(text: str, start: int, repair: bool) -> tuple[list[Call], int]:
    """The calls of the block that begins at `start`, and the position behind it.

    The JSON is read as JSON, so a string may hold the closing tag.
    """
    try:
        value, end = parse_json_prefix(text, start)
        behind = text[end:].lstrip()
        if not behind.startswith(_CLOSE) and behind.removesuffix("```").strip():
            raise MalformedCall("something stands between a call and its closing tag")
        return _list_of_calls(value, repair), end
    except BadJson:
        close = text.find(_CLOSE, start)
        end = len(text) if close < 0 else close
        body = text[start:end]
        return (xml(body, repair) or _list_of_calls(read_json(body, repair), repair)), end


_XML_CALL = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_XML_ARGUMENT = re.compile(r"<parameter=([^>\s]+)>(.*?)</parameter>", re.DOTALL)


def xml(text: str, repair: bool) -> list[Call] | None:
    """Qwen3-Coder and Llama 3.1's custom form: `<function=name>` around `<parameter=key>` blocks or a JSON object."""
    if "<function=" not in text:
        return None
    return [_xml_call(match) for match in _XML_CALL.finditer(text)] or _refuse("a <function=…> block is not closed")


def _xml_call(match: re.Match[str]) -> Call:
    name, body = match.group(1), match.group(2)
    if body.strip().startswith("{"):
        return call_from({"name": name, "arguments": body})
    arguments = {}
    for found in _XML_ARGUMENT.finditer(body):
        if found.group(1) in arguments:
            raise MalformedCall(f"argument {found.group(1)!r} of {name!r} stands twice")
        arguments[found.group(1)] = _xml_value(found.group(2))
    return Call(name, arguments)


def _xml_value(written: str) -> Any:
    text = written.removeprefix("\n").removesuffix("\n")
    try:
        return read_json(text)
    except MalformedCall:
        return text


def mistral(text: str, repair: bool) -> list[Call] | None:
    """Mistral: `[TOOL_CALLS] [{…}, …]`, or `[TOOL_CALLS]name[ARGS]{…}`."""
    if "[TOOL_CALLS]" not in text:
        return None
    calls = []
    for piece in text.split("[TOOL_CALLS]")[1:]:
        name, arguments_mark, arguments = piece.partition("[ARGS]")
        if arguments_mark:
            calls.append(call_from({"name": name.strip(), "arguments": arguments.replace("</s>", "")}, repair))
        else:
            calls.extend(_list_of_calls(read_json(piece.replace("</s>", ""), repair), repair))
    return calls


def llama(text: str, repair: bool) -> list[Call] | None:
    """Llama 3: `<|python_tag|>{"name": …, "parameters": …}`, several parted by semicolons."""
    mark = "<|python_tag|>"
    if mark not in text:
        return None
    body = re.sub(r"<\|(?:eom_id|eot_id)\|>", "", text.split(mark, 1)[1]).strip()
    return [call_from(read_json(piece, repair), repair) for piece in re.split(r"(?<=\})\s*;\s*(?=\{)", body)]


def bare_json(text: str, repair: bool) -> list[Call] | None:
    """The whole text (or its one block) is a call, a list of calls, or `{"tool_calls": […]}`: Llama 3, OpenAI."""
    value = whole_json(text)
    if isinstance(value, Mapping) and isinstance(value.get("tool_calls"), list):
        return _list_of_calls(value["tool_calls"], repair)
    if isinstance(value, list) and value and all(_looks_like_call(one) for one in value):
        return _list_of_calls(value, repair)
    return [call_from(value, repair)] if _looks_like_call(value) else None


def _looks_like_call(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("function"), Mapping):
        value = value["function"]
    return "name" in value and ("arguments" in value or "parameters" in value)


def _list_of_calls(value: Any, repair: bool) -> list[Call]:
    return [call_from(one, repair) for one in (value if isinstance(value, list) else [value])]


def _refuse(why: str) -> list[Call]:
    raise MalformedCall(why)


FORMATS: tuple[Callable[[str, bool], list[Call] | None], ...] = (hermes, xml, mistral, llama, bare_json)
