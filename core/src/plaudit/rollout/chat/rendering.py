"""A chat template bound to a tokenizer: messages to text, text to ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UsageError
from ..media import Media, images_of, media_of

# What ends a turn, in the families that are known; a tokenizer's own end-of-sequence token is added.
TURN_ENDS = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|call|>", "<|return|>", "<|end|>",
    "<|eot|>", "<turn|>", "<end_of_turn>", "<｜end▁of▁sentence｜>",
)  # fmt: skip
# What a model writes itself to hand over to its tools, and the template repeats as the opening of their answers.
HANDOVERS = ("<|observation|>", "<|tool_response>")
# The ends of a turn that are the beginning of what follows.
OPENINGS = (*HANDOVERS, "<|user|>")


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
class Seen:
    """A piece of a conversation as the model is given it: token ids, and the images among them."""

    ids: tuple[int, ...]
    media: Media | None = None


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

    @property
    def _blocks(self) -> bool:
        """Whether the template takes contents as blocks alone, as those of some vision models do."""
        return self.processor is not self.tokenizer and "is string" not in self.source

    def render(self, messages: Sequence[Mapping[str, Any]], *, prompt: bool = False) -> str:
        """The conversation as text; `prompt` adds the opening of the assistant's next turn."""
        text: str = self.processor.apply_chat_template(
            conversation=[_plain(message, self.source, blocks=self._blocks) for message in messages],
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

    def see(self, text: str, messages: Sequence[Mapping[str, Any]]) -> Seen:
        """The same, with the messages' images, whose places in the text are filled with as many tokens as each has.

        Raises UsageError on images where there is no processor to see them.
        """
        images = images_of(messages)
        if not images:
            return Seen(self.encode(text))
        if self.processor is self.tokenizer:
            raise UsageError("a message has an image, but the model's tokenizer sees none; use a vision model")
        found = self.processor(text=[text], images=[images], add_special_tokens=False, return_tensors="pt")
        ids = tuple(found.pop("input_ids")[0].tolist())
        return Seen(ids, media_of(found, len(ids), images))


def _plain(message: Mapping[str, Any], source: str, *, blocks: bool) -> dict[str, Any]:
    """The message as templates take it: no key that is None, and text blocks joined into a string.

    Columns of a table hold None for a key that a message lacks; templates ask whether the key is there. Templates of
    text models take strings, and drop blocks. Raises UsageError on an image where the template knows none.
    """
    kept = {key: value for key, value in message.items() if value is not None or key == "content"}
    content = kept.get("content")
    if blocks and isinstance(content, str):
        return kept | {"content": [{"type": "text", "text": content}]}
    if blocks or not isinstance(content, list):
        return kept
    kinds = {block.get("type", "text") for block in content}
    if kinds <= {"text"}:
        return kept | {"content": "".join(block.get("text") or "" for block in content)}
    unknown = sorted(kind for kind in kinds - {"text"} if str(kind).removesuffix("_url") not in source)
    if unknown:
        raise UsageError(
            f"a message of role {message.get('role')!r} has a block of type {unknown[0]!r}, which the chat template of "
            "this model does not take; give text, or use a model that takes it"
        )
    return kept
