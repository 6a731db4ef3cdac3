"""When a completion ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .options import ExtraOptions

if TYPE_CHECKING:
    from torch import Tensor


def end_tokens(model: Any, tokenizer: Any, extra: ExtraOptions) -> frozenset[int]:
    """The end-of-sequence ids: those asked for, else those of the model's generation config and the tokenizer."""
    if extra.eos_token_id is not None:
        return frozenset(_as_list(extra.eos_token_id))
    of_model = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    of_tokenizer = getattr(tokenizer, "eos_token_id", None)
    return frozenset([*_as_list(of_model), *_as_list(of_tokenizer)])


class StopRule:
    """Says after each step which completions have ended of themselves."""

    def __init__(self, stop: Sequence[str], end_ids: frozenset[int], tokenizer: Any, device: Any) -> None:
        """Raises UsageError if there are stop strings but no tokenizer to read completions with."""
        import torch

        if stop and tokenizer is None:
            raise UsageError("stop strings need a tokenizer; give the generator one, or leave `stop` empty")
        self._end_ids = torch.tensor(sorted(end_ids), dtype=torch.long, device=device)
        self._stop = stop
        self._tokenizer = tokenizer
        # Every token but the pieces of a split character writes at least one byte.
        self._tail = max((len(text.encode()) for text in stop), default=0) + 4

    def __call__(self, written: Tensor) -> Tensor:
        """written: (T, W) int64 token ids so far, a column each row, T ≥ 1. Returns (W,) bool."""
        import torch

        ended = (written[-1][:, None] == self._end_ids).any(-1)
        if not self._stop:
            return ended
        texts = self._tokenizer.batch_decode(written[-self._tail :].t(), skip_special_tokens=False)
        stopped = [any(stop in text for stop in self._stop) for text in texts]
        return ended | torch.tensor(stopped, device=ended.device)


def _as_list(ids: Any) -> list[int]:
    if ids is None:
        return []
    return [int(ids)] if isinstance(ids, int) else [int(token) for token in ids]
