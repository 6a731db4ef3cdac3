"""How model families write calls in text: JSON in tags, XML, Mistral, Llama, bare JSON. Facts of their chat templates.

A format reads a text without its reasoning: the content before the calls, and the calls; None where its marks are
absent. Nothing raises: what is marked as a call and cannot be read becomes a call with an error. `types` gives the
schema of a tool's parameters by tool name, for formats that write every value as text. `repair` also reads Python
literals where JSON is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ...strict_json import BadJson, parse_json, parse_json_prefix
from .calls import MalformedCall, ToolCall, attempt, calls_from, read_json
from .values import Types, typed

Reading = tuple[str, list[ToolCall]]
"""The content that stands before the calls, and the calls in their order."""

Format = Callable[[str, Types, bool], "Reading | None"]

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


def hermes(text: str, types: Types, repair: bool = False) -> Reading | None:
    """Hermes, Qwen2.5, Qwen3: `<tool_call>{"name": …, "arguments": …}</tool_call>`, once a call.

    The last closing tag may be missing at the end of the text. XML within the tags is read too.
    """
    position = text.find(_OPEN)
    if position < 0:
        return None
    content, calls = text[:position].rstrip("\n"), []
    while position >= 0:
        found, position = _tagged_block(text, position + len(_OPEN), types, repair)
        calls.extend(found)
        position = text.find(_OPEN, position)
    return content, calls


def _tagged_block(text: str, start: int, types: Types, repair: bool) -> tuple[list[ToolCall], int]:
    """The calls of the block that begins at `start`, and the position behind it.

    The JSON is read as JSON, so a string may hold the closing tag.
    """
    try:
        value, end = parse_json_prefix(text, start)
    except BadJson:
        # The closing tag after the function's: an argument may hold the text of one.
        inner = text.find("</function>", start) if text.startswith("<function=", start + _blanks(text, start)) else -1
        close = text.find(_CLOSE, max(start, inner))
        end = len(text) if close < 0 else close
        return _loose_block(text[start:end], types, repair), end
    behind = text[end:].lstrip()
    if not behind.startswith(_CLOSE) and behind.removesuffix("```").strip():
        return [ToolCall("", error="something stands between a call and its closing tag")], end
    return calls_from(value, repair), end


def _blanks(text: str, start: int) -> int:
    return len(text[start:]) - len(text[start:].lstrip())


def up_to_last(text: str, mark: str) -> str:
    """The text up to its last such mark: behind it no block can end, and none is looked for from every opening."""
    end = text.rfind(mark)
    return "" if end < 0 else text[: end + len(mark)]


def _loose_block(body: str, types: Types, repair: bool) -> list[ToolCall]:
    read = xml(body, types, repair)
    if read is not None:
        return read[1]
    try:
        return calls_from(read_json(body, repair), repair)
    except MalformedCall as error:
        return [error.as_call()]


_XML_CALL = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_XML_ARGUMENT = re.compile(r"<parameter=([^>\s]+)>(.*?)</parameter>", re.DOTALL)


def xml(text: str, types: Types, repair: bool = False) -> Reading | None:
    """Qwen3.5, Qwen3-Coder, Nemotron: `<function=name>` around `<parameter=key>` blocks or a JSON object."""
    start = text.find("<function=")
    if start < 0:
        return None
    calls = [_xml_call(match, types) for match in _XML_CALL.finditer(up_to_last(text, "</function>"))]
    if text.count("<function=") > len(calls):
        name = re.match(r"[^>\s]*", text[text.rindex("<function=") + len("<function=") :])
        calls.append(ToolCall(name[0] if name else "", error="a <function=…> block is not closed"))
    return text[:start].removesuffix("\n").removesuffix(_OPEN).rstrip("\n"), calls


def _xml_call(match: re.Match[str], types: Types) -> ToolCall:
    name, body = match.group(1), match.group(2)
    if body.strip().startswith("{"):
        return attempt({"name": name, "arguments": body})
    arguments: dict[str, Any] = {}
    closed = up_to_last(body, "</parameter>")
    for found in _XML_ARGUMENT.finditer(closed):
        key, written = found.group(1), found.group(2).removeprefix("\n").removesuffix("\n")
        if key in arguments:
            return ToolCall(name, error=f"argument {key!r} of {name!r} stands twice")
        arguments[key] = typed(written, types, name, key)
    if "<parameter=" in _XML_ARGUMENT.sub("", closed) + body[len(closed) :]:
        return ToolCall(name, error=f"a <parameter=…> block of {name!r} is not closed")
    return ToolCall(name, arguments)


def mistral(text: str, types: Types, repair: bool = False) -> Reading | None:
    """Mistral: `[TOOL_CALLS] [{…}, …]`, or `[TOOL_CALLS]name[ARGS]{…}`."""
    content, mark, _ = text.partition("[TOOL_CALLS]")
    if not mark:
        return None
    calls: list[ToolCall] = []
    for piece in text.split("[TOOL_CALLS]")[1:]:
        piece = piece.replace("</s>", "")
        name, arguments_mark, arguments = piece.partition("[ARGS]")
        if arguments_mark:
            calls.append(attempt({"name": name.strip(), "arguments": arguments}, repair))
        else:
            calls.extend(_json_calls(piece, repair))
    return content, calls


def llama_tag(text: str, types: Types, repair: bool = False) -> Reading | None:
    """Llama 3: `<|python_tag|>{"name": …, "parameters": …}`, several parted by semicolons."""
    content, mark, body = text.partition("<|python_tag|>")
    if not mark:
        return None
    body = re.sub(r"<\|(?:eom_id|eot_id)\|>", "", body).strip()
    pieces = re.split(r"(?<=\})\s*;\s*(?=\{)", body)
    return content, [call for piece in pieces for call in _json_calls(piece, repair)]


def llama(text: str, types: Types, repair: bool = False) -> Reading | None:
    """Llama 3.1 and 3.2: `<|python_tag|>` before the call, or a call that is the whole text.

    Text that begins as a call (`{"name": …`) and is no strict JSON is a malformed call.
    """
    read = llama_tag(text, types, repair) or bare_json(text, types, repair)
    if read is None and re.match(r'\s*\{\s*"(?:name|type)"\s*:', text):
        return "", _json_calls(text, repair)
    return read


def bare_json(text: str, types: Types, repair: bool = False) -> Reading | None:
    """The whole text is a call, a list of calls, or `{"tool_calls": […]}`."""
    if not text.strip().startswith(("{", "[")):
        return None
    try:
        value = parse_json(text)
    except BadJson:
        return None
    if isinstance(value, Mapping) and isinstance(value.get("tool_calls"), list):
        return "", calls_from(value["tool_calls"], repair)
    if isinstance(value, list) and value and all(_looks_like_call(one) for one in value):
        return "", calls_from(value, repair)
    return ("", [attempt(value, repair)]) if _looks_like_call(value) else None


def _looks_like_call(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    if isinstance(value.get("function"), Mapping):
        value = value["function"]
    return "name" in value and ("arguments" in value or "parameters" in value)


def _json_calls(source: str, repair: bool) -> list[ToolCall]:
    try:
        return calls_from(read_json(source, repair), repair)
    except MalformedCall as error:
        return [error.as_call()]
