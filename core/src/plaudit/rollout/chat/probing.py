"""What a chat template can carry, found out by rendering conversations made of words that stand nowhere else."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from ...errors import UsageError
from .calls import ToolCall
from .formats import Format
from .reading import FORMATS, read_turn
from .rendering import Template
from .values import types_of

_TOOL, _KEY, _VALUE, _ANSWER = "probetoolqz", "probekeyqz", "probevalueqz", "probeanswerqz"
_CALL = ToolCall(_TOOL, {_KEY: _VALUE}, "call00000")
_SCHEMA = {
    "type": "function",
    "function": {
        "name": _TOOL,
        "description": "probe",
        "parameters": {
            "type": "object",
            "properties": {_KEY: {"type": "string", "description": "probe"}},
            "required": [_KEY],
        },
    },
}
USER = {"role": "user", "content": "hi"}


def answer(content: Any, *, name: str = _TOOL, id: str = _CALL.id) -> dict[str, Any]:
    """A tool's answer as a message."""
    return {"role": "tool", "name": name, "tool_call_id": id, "content": content}


def _said(content: str = "", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": [_CALL.as_message()], **more}


@dataclass(frozen=True, slots=True)
class Findings:
    """`missing`: what of a call the template drops, or its error. `preserves`: its earlier turns stay as they were."""

    missing: str | None
    preserves: bool = False
    kept_over_turns: bool = False


def probe(template: Template) -> Findings:
    """Whether the template carries calls and answers, and whether what follows changes what stands before.

    `preserves`: over rounds of tools. `kept_over_turns`: with reasoning, content and a later user's turn, too.
    """
    probed = replace(template, schemas=(_SCHEMA,))
    try:
        full = probed.render([USER, _said(), answer(_ANSWER)], prompt=True)
        wanted = {"the tool's name": _TOOL, "its arguments": _VALUE, "the tool's answer": _ANSWER}
        dropped = [what for what, word in wanted.items() if word not in full.replace(probed.render([USER]), "")]
        if dropped:
            return Findings(f"it drops {' and '.join(dropped)}")
        preserves = full.startswith(probed.render([USER, _said()]))
    except Exception as error:  # a template's own error, of whichever kind Jinja makes of it
        return Findings(f"it fails on them ({type(error).__name__}: {error})")
    return Findings(None, preserves, preserves and _kept(probed))


def _kept(template: Template) -> bool:
    turns = [USER, _said("one", reasoning_content="two"), answer("3"), _said(), answer("4"), USER]
    turns = [*turns, {"role": "assistant", "content": "five", "reasoning_content": "six"}, USER]
    try:
        texts = [template.render(turns[:length]) for length in (2, 4, 7, 8)]
        return all(whole.startswith(part) for part, whole in pairwise(texts))
    except Exception:  # rendering these turns is more than is asked of it
        return False


def reader_of(template: Template) -> Format | None:
    """The format that reads back the call which the template writes, or None."""
    probed = replace(template, schemas=(_SCHEMA,))
    cue = probed.render([USER], prompt=True)
    whole = probed.render([USER, _said()])
    # Where a template opens the turn otherwise than it renders it (reasoning), the turn begins at its header.
    start = len(cue) if whole.startswith(cue) else len(probed.render([USER]))
    for read in FORMATS:
        turn = read_turn(_cut(whole[start:], probed), read, types_of([_SCHEMA]), thinks=True)
        if [(call.name, call.arguments) for call in turn.calls] == [(_TOOL, {_KEY: _VALUE})]:
            return read
    return None


def _cut(text: str, template: Template) -> str:
    for mark in template.marks.ends:
        if mark in text:
            text = text[: text.rindex(mark)]
    return text.rstrip("\n")


def check_schemas_shown(template: Template) -> None:
    """Warn where the prompt says nothing of the tools."""
    probed = replace(template, schemas=(_SCHEMA,))
    if _TOOL not in probed.render([USER], prompt=True):
        logging.getLogger("plaudit").warning(
            "the chat template does not show the model which tools there are; describe them in the system prompt"
        )


def refuse(family: str, reason: str) -> UsageError:
    """The error for a template that cannot be used with tools."""
    return UsageError(
        f"tools are given, but the chat template of this model ({family}) cannot carry them: {reason}; use a model "
        "whose template has tools (Qwen2.5, Qwen3, Llama 3.1, DeepSeek-V3, GLM-4-MoE, GPT-OSS, Gemma 4), or set "
        "tokenizer.chat_template to one that renders `tools`, `tool_calls` and messages of role 'tool'"
    )
