"""How the families with marks of their own write calls: DeepSeek, GLM, GPT-OSS (harmony), Gemma 4, LFM2.

See `formats` for what a format is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from .calls import ToolCall, attempt
from .formats import Reading, up_to_last
from .values import Types, typed

_DEEPSEEK_CALL = re.compile(r"<｜tool▁call▁begin｜>(.*?)<｜tool▁call▁end｜>", re.DOTALL)


def deepseek(text: str, types: Types, repair: bool = False) -> Reading | None:
    """DeepSeek-V3, R1: `<｜tool▁call▁begin｜>function<｜tool▁sep｜>name` and the arguments in a block of JSON.

    V3.1 leaves out the word and the block: `<｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}`.
    """
    begin = text.find("<｜tool▁call")
    if begin < 0:
        return None
    bodies = _DEEPSEEK_CALL.findall(up_to_last(text, "<｜tool▁call▁end｜>"))
    calls = [_deepseek_call(body, repair) for body in bodies]
    if text.count("<｜tool▁call▁begin｜>") > len(bodies) or not bodies:
        calls.append(ToolCall("", error="a tool call is not closed"))
    return text[:begin].rstrip("\n"), calls


def _deepseek_call(body: str, repair: bool) -> ToolCall:
    head, mark, rest = body.partition("<｜tool▁sep｜>")
    if not mark:
        return ToolCall("", error="a tool call has no <｜tool▁sep｜> before its name")
    fenced = re.fullmatch(r"(.*?)\n```json\n(.*?)\n?```\s*", rest, re.DOTALL)
    name, arguments = (fenced.group(1), fenced.group(2)) if fenced else (head, rest)
    return attempt({"name": name.strip(), "arguments": arguments}, repair)


_GLM_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_GLM_ARGUMENT = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)


def glm(text: str, types: Types, repair: bool = False) -> Reading | None:
    """GLM-4-MoE: `<tool_call>name`, then `<arg_key>…</arg_key>` and `<arg_value>…</arg_value>` in pairs."""
    begin = text.find("<tool_call>")
    if begin < 0:
        return None
    bodies = _GLM_CALL.findall(up_to_last(text, "</tool_call>"))
    calls = [_glm_call(body, types) for body in bodies]
    if text.count("<tool_call>") > len(bodies):
        calls.append(ToolCall("", error="a <tool_call> is not closed"))
    return text[:begin].rstrip("\n"), calls


def _glm_call(body: str, types: Types) -> ToolCall:
    name = body.split("<arg_key>", 1)[0].strip()
    if not name or "\n" in name or "{" in name:
        return ToolCall("", error="a <tool_call> does not begin with the tool's name")
    arguments: dict[str, Any] = {}
    closed = up_to_last(body, "</arg_value>")
    for key, written in _GLM_ARGUMENT.findall(closed):
        if key in arguments:
            return ToolCall(name, error=f"argument {key!r} of {name!r} stands twice")
        arguments[key] = typed(written, types, name, key)
    if "<arg_" in _GLM_ARGUMENT.sub("", closed) + body[len(closed) :]:
        return ToolCall(name, error=f"an argument of {name!r} is not closed")
    return ToolCall(name, arguments)


_HARMONY_HEADER = re.compile(
    r"(?:<\|start\|>assistant)?(?P<header>[^<]*)(?:<\|channel\|>(?P<channel>[^<]*))?(?:<\|constrain\|>[^<]*)?$"
)
_HARMONY_END = re.compile(r"<\|(?:end|call|return)\|>")
_LONGEST_HEADER = 400


def _harmony_parts(text: str) -> Iterator[tuple[str, str, str]]:
    """Header, channel and body of each message, in one pass however long the text is."""
    place, mark = 0, "<|message|>"
    while (at := text.find(mark, place)) >= 0:
        head = _HARMONY_HEADER.search(text[max(place, at - _LONGEST_HEADER) : at])
        end = _HARMONY_END.search(text, at + len(mark))
        body = text[at + len(mark) : end.start() if end else len(text)]
        yield head["header"] if head else "", (head["channel"] if head else None) or "", body
        place = end.end() if end else len(text)


def harmony(text: str, types: Types, repair: bool = False) -> Reading | None:
    """GPT-OSS: ` to=functions.name<|channel|>commentary json<|message|>{…}<|call|>`.

    The recipient may stand in the header or beside the channel. Other messages are content, those of the channel
    `analysis` left out: `harmony_thinking` gives them.
    """
    if "<|message|>" not in text:
        return None
    calls, content = [], []
    for header, channel, body in _harmony_parts(text):
        recipient = re.search(r"to=(\S+)", f"{header} {channel}")
        if recipient:
            name = recipient.group(1).removeprefix("functions.")
            calls.append(attempt({"name": name, "arguments": body}, repair))
        elif channel.strip() != "analysis":
            content.append(body)
    return "\n".join(content), calls


def harmony_thinking(text: str) -> str:
    """What GPT-OSS wrote on the channel `analysis`."""
    return "\n".join(body for _, channel, body in _harmony_parts(text) if channel.strip() == "analysis")


_GEMMA_CALL = re.compile(r"<\|tool_call>call:\s*([\w.-]+)\s*(\{.*?\})?<tool_call\|>", re.DOTALL)
_GEMMA_STRING = re.compile(r'<\|"\|>(.*?)<\|"\|>', re.DOTALL)


def gemma(text: str, types: Types, repair: bool = False) -> Reading | None:
    """Gemma 4: `<|tool_call>call:name{key:<|"|>text<|"|>,other:1}<tool_call|>`."""
    begin = text.find("<|tool_call>")
    if begin < 0:
        return None
    found = _GEMMA_CALL.finditer(up_to_last(text, "<tool_call|>"))
    calls = [_gemma_call(one[1], one[2], repair) for one in found]
    if text.count("<|tool_call>") > len(calls):
        calls.append(ToolCall("", error="a tool call is not closed, or does not begin with 'call:' and a name"))
    return text[:begin].rstrip("\n"), calls


def _gemma_call(name: str, written: str | None, repair: bool) -> ToolCall:
    import json

    strings: list[str] = []

    def shelve(match: re.Match[str]) -> str:
        strings.append(match.group(1))
        return f"\x00{len(strings) - 1}\x00"

    # Strings are put aside first: a key or a bracket inside one is text.
    bare = _GEMMA_STRING.sub(shelve, written or "{}")
    bare = re.sub(r"([{,]\s*)([^\s\"{}\[\]:,\x00]+)\s*:", lambda match: f"{match[1]}{json.dumps(match[2])}:", bare)
    bare = re.sub("\x00(\\d+)\x00", lambda match: json.dumps(strings[int(match[1])]), bare)
    return attempt({"name": name, "arguments": bare}, repair)


def pythonic(text: str, types: Types, repair: bool = False) -> Reading | None:
    """LFM2: `<|tool_call_start|>[name(key=value), …]<|tool_call_end|>`, Python calls with literal arguments."""
    content, mark, rest = text.partition("<|tool_call_start|>")
    if not mark:
        return None
    body, closed, _ = rest.partition("<|tool_call_end|>")
    if not closed:
        return content, [ToolCall("", error="<|tool_call_start|> is not closed")]
    try:
        tree = ast.parse(body.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        return content, [ToolCall("", error=f"not a list of calls: {error}")]
    return content, [_python_call(one) for one in (tree.elts if isinstance(tree, ast.List) else [tree])]


def _python_call(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return ToolCall("", error=f"{ast.unparse(node)[:80]!r} is not a call")
    name = node.func.id
    if node.args or any(keyword.arg is None for keyword in node.keywords):
        return ToolCall(name, error=f"the arguments of {name!r} must be given by name")
    try:
        return ToolCall(name, {str(one.arg): _literal(one.value) for one in node.keywords})
    except ValueError:
        return ToolCall(name, error=f"an argument of {name!r} is not a literal")


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in ("true", "false", "null"):
        return {"true": True, "false": False, "null": None}[node.id]
    return ast.literal_eval(node)
