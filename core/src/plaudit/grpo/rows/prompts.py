"""Prompts to token ids and token ids to completions, for plain strings and for conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import UsageError
from ...rollout.media import Media
from ...types import Row, Text
from ..policy.images import images_in, prompt_with_images

# A column of one of these names would be hidden by, or clash with, what a reward function is given.
RESERVED_COLUMNS = (
    "prompts",
    "completions",
    "completion",
    "completion_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
    "environments",
)


def as_row(record: Mapping[str, Any]) -> Row:
    """A dataset record as a Row, its images in the prompt. Raises UsageError when it has no prompt."""
    if "prompt" not in record:
        raise UsageError(f"a row has no 'prompt' column; its columns are {', '.join(sorted(record)) or 'none'}")
    return Row(prompt_with_images(record), {name: value for name, value in record.items() if name != "prompt"})


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A prompt as the model is given it."""

    ids: tuple[int, ...]
    media: Media | None = None


@dataclass(frozen=True, slots=True)
class PromptCodec:
    """A tokenizer with the choices of a run.

    `max_prompt_tokens`: what the model's context leaves beside the completion; None = no limit is known.
    """

    tokenizer: Any
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_prompt_tokens: int | None = None

    @property
    def processing_class(self) -> Any:
        """What a conversation is rendered with."""
        return self.tokenizer

    @property
    def checks_ahead(self) -> bool:
        """Whether a prompt's length is known from the prompt column alone."""
        return self.max_prompt_tokens is not None

    def encode(self, rows: Sequence[Row]) -> list[tuple[int, ...]]:
        """Token ids of each row's prompt, see `prepare`."""
        return [prompt.ids for prompt in self.prepare(rows)]

    def prepare(self, rows: Sequence[Row]) -> list[Prepared]:
        """Each row's prompt, with the chat template and generation prompt when it is a conversation.

        Neighbours with equal prompts, as in a group, are encoded once. Raises UsageError on a prompt that is empty
        or too long.
        """
        if not rows:  # a rank whose rollouts are all kept, when others are replaced
            return []
        first = [place for place, row in enumerate(rows) if place == 0 or row.prompt != rows[place - 1].prompt]
        prepared = self._prepare([rows[place] for place in first])
        ends = [*first[1:], len(rows)]
        return [prompt for prompt, start, end in zip(prepared, first, ends, strict=True) for _ in range(start, end)]

    def decode(self, row: Row, completion_ids: Sequence[int]) -> Text:
        """The completion as rewards see it: a string, or one assistant message where the prompt is a conversation."""
        text = self.tokenizer.decode(completion_ids, skip_special_tokens=True)
        return text if isinstance(row.prompt, str) else [{"role": "assistant", "content": text}]

    def _prepare(self, rows: Sequence[Row]) -> list[Prepared]:
        if any(images_in(row.prompt) for row in rows):
            raise UsageError(
                "rows have images, but processing_class is a tokenizer; give the processor of a vision-language model, "
                "or drop the columns image and images"
            )
        return [Prepared(ids) for ids in self._encode(rows)]

    def _encode(self, rows: Sequence[Row]) -> list[tuple[int, ...]]:
        plain = [row.prompt for row in rows if isinstance(row.prompt, str)]
        chats = [row.prompt for row in rows if not isinstance(row.prompt, str)]
        plain_ids = iter(self.tokenizer(text=plain)["input_ids"] if plain else [])
        chat_ids = iter(self._render(chats) if chats else [])
        encoded = [tuple(next(plain_ids if isinstance(row.prompt, str) else chat_ids)) for row in rows]
        for row, ids in zip(rows, encoded, strict=True):
            self._check_length(row, len(ids))
        return encoded

    def _render(self, chats: Sequence[Any]) -> list[list[int]]:
        if not self.tokenizer.chat_template:
            raise UsageError(
                "prompts are conversations but the tokenizer has no chat template; set tokenizer.chat_template, "
                "or give "
                "prompts as strings"
            )
        return self.tokenizer.apply_chat_template(
            conversation=list(chats),
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            **self.chat_template_kwargs,
        )["input_ids"]

    def _check_length(self, row: Row, length: int) -> None:
        shown = repr(row.prompt)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        if length == 0:
            raise UsageError(f"the prompt {shown} has no tokens; give it at least one")
        if self.max_prompt_tokens is not None and length > self.max_prompt_tokens:
            raise UsageError(
                f"the prompt {shown} has {length} tokens but the model's context leaves "
                f"{self.max_prompt_tokens} beside the "
                "completion; shorten or drop that row, or lower max_completion_length"
            )
