"""A chat template bound to a tokenizer: messages to text, text to ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError

# What ends a turn, in the families that are known; a tokenizer's own end-of-sequence token is added.
TURN_ENDS = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|call|>", "<|return|>", "<|end|>",
    "<|eot|>", "<turn|>", "<end_of_turn>", "<｜end▁of▁sentence｜>",
)  # fmt: skip
# What a model writes itself to hand over to its tools, and the template repeats as the opening of their answers.
HANDOVERS = ("<|observation|>", "<|tool_response>")


@dataclass(frozen=True, slots=True)
class Marks:
    """Special tokens of a tokenizer. `ends`: what ends a turn, with its id; `special`: all that hold no text."""

    ends: Mapping[str, int]
    special: tuple[str, ...]

    @classmethod
    def of(cls, tokenizer: Any) -> Marks:
        """Those of a tokenizer, as far as it has them as one token each."""
        added = tokenizer.added_tokens_decoder
        ids = {token.content: id for id, token in added.items()}
        ids.setdefault(tokenizer.eos_token, tokenizer.eos_token_id)
        known = dict.fromkeys([tokenizer.eos_token, *TURN_ENDS, *HANDOVERS])
        if "<|call|>" in ids:  # GPT-OSS: a turn has several parts, each with this at its end
            known.pop("<|end|>")
        if "<|observation|>" in ids:  # GLM ends a turn by naming who speaks next
            known["<|user|>"] = None
        ends = {mark: ids[mark] for mark in known if mark and ids.get(mark) is not None}
        return cls(ends, tuple(token.content for token in added.values() if token.special))


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """`source` (a Jinja template) over `processor`, a tokenizer or the processor of a vision model."""

    processor: Any
    source: str
    options: Mapping[str, Any]
    marks: Marks
    schemas: tuple[dict[str, Any], ...] = ()

    @property
    def tokenizer(self) -> Any:
        """The tokenizer itself."""
        return getattr(self.processor, "tokenizer", self.processor)

    def render(self, messages: Sequence[Mapping[str, Any]], *, prompt: bool = False) -> str:
        """The conversation as text; `prompt` adds the opening of the assistant's next turn."""
        text: str = self.processor.apply_chat_template(
            conversation=[_plain(message, self.source) for message in messages],
            tools=list(self.schemas) or None,
            chat_template=self.source,
            add_generation_prompt=prompt,
            tokenize=False,
            **self.options,
        )
        return text

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of rendered text; the template has written all special tokens."""
        return tuple(self.tokenizer(text=text, add_special_tokens=False)["input_ids"]) if text else ()


def _plain(message: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The message as templates take it: no key that is None, and text blocks joined into a string.

    Columns of a table hold None for a key that a message lacks; templates ask whether the key is there. Templates of
    text models take strings, and drop blocks. Raises UsageError on an image where the template knows none.
    """
    kept = {key: value for key, value in message.items() if value is not None or key == "content"}
    blocks = kept.get("content")
    if not isinstance(blocks, list):
        return kept
    kinds = {block.get("type", "text") for block in blocks}
    if kinds <= {"text"}:
        return kept | {"content": "".join(block.get("text") or "" for block in blocks)}
    unknown = sorted(kind for kind in kinds - {"text"} if str(kind).removesuffix("_url") not in source)
    if unknown:
        raise UsageError(
            f"a message of role {message.get('role')!r} has a block of type {unknown[0]!r}, which the chat template of "
            "this model does not take; give text, or use a model that takes it"
        )
    return kept
