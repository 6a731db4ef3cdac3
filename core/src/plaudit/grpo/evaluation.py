"""What training and evaluation iterate over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from .sampler import GroupedSampler


def ticks(count: int, *, rollouts: int) -> DataLoader:
    """A loader of `count` batches of `rollouts` numbers each: the source draws the rows, the Trainer only counts.

    It has a generator of its own, so that starting an epoch draws nothing from the global random state.
    """
    return DataLoader(range(count * rollouts), batch_size=rollouts, collate_fn=_as_is, generator=torch.Generator())


def generations_in_evaluation(args: Any) -> int:
    """Completions for each prompt in evaluation."""
    return args.num_generations_eval or args.num_generations


def evaluation_sampler(dataset: Any, args: Any) -> GroupedSampler:
    """Every row of the dataset once for each completion, in an order fixed by the seed."""
    return GroupedSampler(len(dataset), generations_in_evaluation(args), args.seed)


def _as_is(numbers: Sequence[int]) -> Sequence[int]:
    return numbers
