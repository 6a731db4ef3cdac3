"""Prompts of vision-language models: their processor makes token ids and images of a conversation in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...errors import UsageError
from ...rollout.media import media_of, sources_of
from ...rollout.protocol import SamplingOptions
from ...types import Row
from ..rows.prompts import Prepared, PromptCodec
from .images import with_blocks


@dataclass(frozen=True, slots=True)
class SeeingCodec(PromptCodec):
    """A codec whose `tokenizer` is part of a `processor`."""

    processor: Any = None

    @property
    def processing_class(self) -> Any:
        """The processor."""
        return self.processor

    @property
    def checks_ahead(self) -> bool:
        """No: a prompt's length depends on its images."""
        return False

    def _prepare(self, rows: Sequence[Row]) -> list[Prepared]:
        return [self._one(row) for row in rows]

    def _one(self, row: Row) -> Prepared:
        messages = [] if isinstance(row.prompt, str) else with_blocks(row.prompt)
        if isinstance(row.prompt, str):
            found = self.processor(text=[row.prompt], return_tensors="pt")
        else:
            found = self.processor.apply_chat_template(
                [messages],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
                **self.chat_template_kwargs,
            )
        ids = tuple(found["input_ids"][0].tolist())
        self._check_length(row, len(ids))
        rest = {name: value for name, value in found.items() if isinstance(value, torch.Tensor)}
        return Prepared(ids, media_of(rest, len(ids), sources_of(messages)))


def prompt_codec(processing_class: Any, options: Mapping[str, Any], room: int | None = None) -> PromptCodec:
    """The codec of a tokenizer or processor. `options`: for its chat template; `room`: most tokens of a prompt."""
    if is_processor(processing_class):
        return SeeingCodec(processing_class.tokenizer, options, room, processing_class)
    return PromptCodec(processing_class, options, room)


def is_processor(processing_class: Any) -> bool:
    """Whether this is a processor, of which a tokenizer is a part."""
    from transformers import ProcessorMixin

    return isinstance(processing_class, ProcessorMixin)


def tokenizer_of(processing_class: Any) -> Any:
    """The tokenizer, or that of a processor."""
    return processing_class.tokenizer if is_processor(processing_class) else processing_class


def without_image_tokens(sampling: SamplingOptions, model: Any) -> SamplingOptions:
    """The options with the model's image token forbidden: written by the policy, it would stand for no image."""
    token = getattr(model.config, "image_token_id", None)
    if token is None or "suppress_tokens" in sampling.generation_kwargs:
        return sampling
    return replace(sampling, generation_kwargs={**sampling.generation_kwargs, "suppress_tokens": [token]})


def check_seeing(args: Any, processing_class: Any) -> None:
    """Prepare `args` for a vision-language model. Raises UsageError where one cannot generate."""
    if not is_processor(processing_class):
        return
    # Rows without images leave the part that sees without a gradient.
    if args.ddp_find_unused_parameters is None and not (args.gradient_checkpointing_kwargs or {}).get("use_reentrant"):
        args.ddp_find_unused_parameters = True
    if args.use_transformers_continuous_batching:
        raise UsageError(
            "use_transformers_continuous_batching with a vision-language model: it is given tokens alone there; leave "
            "it out, or train on text with the model's tokenizer as processing_class"
        )
