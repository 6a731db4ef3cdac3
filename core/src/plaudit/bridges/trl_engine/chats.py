"""The tokenizer of a run as TRL's loop of tool calls needs it: with our template, and our reading of calls."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any


class ShownTools(list[dict[str, Any]]):
    """The schemas of the tools that a prompt shows, with how the model of this tokenizer converses with them."""

    def __init__(self, chat: Any) -> None:
        super().__init__(chat.template.schemas)
        self.chat = chat


def processing_class_for_trl(processing_class: Any, chats: Mapping[Any, Any]) -> Any:
    """A copy of the tokenizer or processor that renders and reads conversations as the engine here does.

    `chats`: as `Agents.chats` gives them. What it saves is the original: no file of a run differs.
    """
    adapted = copy.deepcopy(processing_class)
    tokenizer = getattr(adapted, "tokenizer", adapted)
    shown = next((chat for chat in chats.values() if chat.template.schemas), next(iter(chats.values())))
    options, render = dict(shown.template.options), adapted.apply_chat_template

    def apply_chat_template(*args: Any, **kwargs: Any) -> Any:
        return render(*args, **{**options, **kwargs})

    def parse_response(ids: Sequence[int], prefix: Any = None, tools: Any = None) -> dict[str, Any]:
        chat = tools.chat if isinstance(tools, ShownTools) else shown
        message: dict[str, Any] = chat.parse(list(ids))[0]
        return message

    adapted.chat_template = shown.template.source
    adapted.apply_chat_template = apply_chat_template
    adapted.save_pretrained = processing_class.save_pretrained
    tokenizer.parse_response = parse_response
    # TRL asks for one before it reads calls; only `parse_response` would use it.
    tokenizer.response_template = {}
    return adapted
