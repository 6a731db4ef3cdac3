"""The model family of a chat template, by marks that only its templates hold, and the template of ours that fits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Family:
    """`marks`: a template that holds all of them is one of the family's.

    `ours`: the file of our template, if there is one; `options`: what it needs to be told.
    """

    name: str
    marks: tuple[str, ...]
    ours: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


_QWEN35 = ("<tool_call>\\n<function=", "render_content", "<think>")

# The first that fits. Order matters: Qwen3.5 also holds the marks of Qwen3, which holds those of Qwen2.5.
FAMILIES = (
    Family("Nemotron 3", ("<function=", "truncate_history_thinking")),
    Family("Qwen3.6", (*_QWEN35, "preserve_thinking"), "qwen3_5", {"json_values": True}),
    Family("Qwen3.5", _QWEN35, "qwen3_5"),
    Family("GLM-4-MoE", ("[gMASK]<sop>", "<arg_key>"), "glm4moe"),
    Family("Qwen3-VL", ("<|image_pad|>", "<tool_call>", "tool_call.arguments")),
    Family("Qwen2.5-VL", ("<|image_pad|>", "<|im_start|>")),
    Family("Qwen3", ("<tool_call>", "last_query_index", "<|im_start|>"), "qwen3"),
    Family("Qwen2.5", ("<tool_call>", "<tools>", "<|im_start|>")),
    Family("Llama 3.1", ("<|start_header_id|>", "ipython", "tool_calls")),
    Family("Llama 3", ("<|start_header_id|>",)),
    Family("DeepSeek-V3", ("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"), "deepseek"),
    Family("GPT-OSS", ("<|channel|>analysis", "<|start|>assistant")),
    Family("Gemma 4", ("<|turn>", "<|tool_call>")),
    Family("Gemma", ("<start_of_turn>",)),
    Family("LFM2", ("<|tool_response_start|>",)),
    Family("Mistral", ("[INST]",)),
    Family("Phi", ("<|assistant|>", "<|user|>")),
    Family("ChatML", ("<|im_start|>",)),
)


def family_of(source: str) -> Family:
    """The family of a template's source; one of unknown make has no name and no template of ours."""
    plain = source.replace("\\u003c", "<")
    found = (family for family in FAMILIES if all(mark in plain for mark in family.marks))
    return next(found, Family("of unknown family", ()))


def template_of(family: Family) -> str | None:
    """Our template for the family, or None."""
    if family.ours is None:
        return None
    return (files(__package__) / "templates" / f"{family.ours}.jinja").read_text(encoding="utf-8")
