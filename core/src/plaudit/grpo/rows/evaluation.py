"""What training and evaluation iterate over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from ..sampler import evaluation_order
from .streams import Filler, StreamedEvaluationRows, streams


def ticks(count: int, *, rollouts: int) -> DataLoader:
    """A loader of `count` batches of `rollouts` numbers each: the source draws the rows, the Trainer only counts.

    It has a generator of its own, so that starting an epoch draws nothing from the global random state.
    """
    return DataLoader(range(count * rollouts), batch_size=rollouts, collate_fn=_as_is, generator=torch.Generator())


@contextmanager
def random_state_kept(device: torch.device) -> Iterator[None]:
    """What is drawn meanwhile changes nothing that is drawn later, so that evaluating changes no training run."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def generations_in_evaluation(args: Any) -> int:
    """Completions for each prompt in evaluation."""
    return args.num_generations_eval or args.num_generations


class EvaluationRows(Dataset):
    """The rows of a dataset as evaluation goes through them: each once for every completion, then fillers."""

    def __init__(self, rows: Any, args: Any) -> None:
        self.rows = rows
        self.order = evaluation_order(len(rows), generations_in_evaluation(args), args.seed)
        self.fillers = -len(self.order) % _fill_up_to(args)

    def __len__(self) -> int:
        return len(self.order) + self.fillers

    def __getitem__(self, place: int) -> Any:
        return self.rows[self.order[place]] if place < len(self.order) else Filler(self.rows[self.order[0]])


def evaluation_rows(rows: Any, args: Any) -> Dataset:
    """What evaluation iterates over, for a dataset that can be indexed or streams."""
    if streams(rows):
        return StreamedEvaluationRows(rows, generations_in_evaluation(args), args.seed, _fill_up_to(args))
    return EvaluationRows(rows, args)


def _fill_up_to(args: Any) -> int:
    """Rows that all ranks take at a time: all must run equally often. One process alone may end with fewer."""
    return args.eval_batch_size * args.world_size if args.world_size > 1 and not args.dataloader_drop_last else 1


def _as_is(numbers: Sequence[int]) -> Sequence[int]:
    return numbers
