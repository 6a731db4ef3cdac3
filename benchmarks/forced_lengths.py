"""Completions that end exactly where a workload says, in either engine, at the full cost of generating them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from workloads import EOS


def force(engine: str, trainer: Any, lengths: Sequence[int]) -> None:
    """Make row i of each generation batch end with its `lengths[i]`-th token."""
    limits = torch.tensor(list(lengths))
    if engine == "plaudit":
        _force_plaudit(limits)
    else:
        _force_trl(trainer, limits)


def _force_plaudit(limits: torch.Tensor) -> None:
    from plaudit.rollout.sampling import TokenChooser

    original = TokenChooser.__call__

    def choose(self: Any, logits: torch.Tensor, rows: Any) -> tuple[torch.Tensor, torch.Tensor]:
        ends = limits[rows._places] == rows.step + 1
        tokens, logprobs = original(self, logits, rows)
        return _ended(tokens, ends), logprobs

    TokenChooser.__call__ = choose


def _ended(tokens: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    # A random word that is the end by chance is another word here.
    return torch.where(ends, EOS, torch.where(tokens == EOS, EOS + 1, tokens))


def _force_trl(trainer: Any, limits: torch.Tensor) -> None:
    from transformers import LogitsProcessor, LogitsProcessorList

    class End(LogitsProcessor):
        def __init__(self, begin: int) -> None:
            self.begin = begin

        def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
            ends = limits == input_ids.shape[1] - self.begin + 1
            scores[:, EOS] = -torch.inf
            if ends.any():
                scores[ends] = -torch.inf
                scores[ends, EOS] = 0.0
            return scores

    original = trainer.model.generate

    def generate(**inputs: Any) -> torch.Tensor:
        processors = LogitsProcessorList([End(inputs["input_ids"].shape[1])])
        return original(**inputs, logits_processor=processors)

    trainer.model.generate = generate
