"""When a completion ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import UsageError
from ..types import FinishReason
from .options import ExtraOptions
from .protocol import SamplingOptions


def end_tokens(model: Any, tokenizer: Any, extra: ExtraOptions) -> frozenset[int]:
    """The end-of-sequence ids: those asked for, else those of the model's generation config and the tokenizer."""
    if extra.eos_token_id is not None:
        return frozenset(_as_list(extra.eos_token_id))
    of_model = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    of_tokenizer = getattr(tokenizer, "eos_token_id", None)
    return frozenset([*_as_list(of_model), *_as_list(of_tokenizer)])


class StopRule:
    """Says after each token whether, and why, a completion is finished."""

    def __init__(self, sampling: SamplingOptions, end_ids: frozenset[int], tokenizer: Any) -> None:
        """Raises UsageError if there are stop strings but no tokenizer to read completions with."""
        if sampling.stop and tokenizer is None:
            raise UsageError("stop strings need a tokenizer; give the generator one, or leave `stop` empty")
        self._limit = sampling.max_new_tokens
        self._end_ids = end_ids
        self._stop = sampling.stop
        self._tokenizer = tokenizer
        # Every token but the pieces of a split character writes at least one byte.
        self._tail = max((len(text.encode()) for text in sampling.stop), default=0) + 4

    def __call__(self, completion_ids: Sequence[int]) -> FinishReason | None:
        """The reason, or None to go on. `completion_ids` ends with the newest token."""
        if completion_ids[-1] in self._end_ids:
            return "stop"
        if self._stop:
            text = self._tokenizer.decode(completion_ids[-self._tail :], skip_special_tokens=False)
            if any(stop in text for stop in self._stop):
                return "stop"
        return "length" if len(completion_ids) >= self._limit else None


def _as_list(ids: Any) -> list[int]:
    if ids is None:
        return []
    return [int(ids)] if isinstance(ids, int) else [int(token) for token in ids]
