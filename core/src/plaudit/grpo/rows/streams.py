"""Rows of a dataset that can only be read from its beginning: never more than a batch of them is held."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from torch.utils.data import IterableDataset

from ...errors import UsageError


def streams(dataset: Any) -> bool:
    """Whether a dataset can be read in order only, such as `datasets.load_dataset(…, streaming=True)`."""
    return isinstance(dataset, IterableDataset)


def first_row(dataset: Any) -> Mapping[str, Any] | None:
    """The first row of a stream; None when it is empty."""
    return next(iter(dataset), None)


def shuffled(dataset: Any, seed: int) -> Any:
    """The stream in the order of a buffered shuffle. Raises UsageError when it has none."""
    if not hasattr(dataset, "shuffle"):
        raise UsageError(
            f"a {type(dataset).__name__} cannot be shuffled; give a datasets.IterableDataset, or set "
            "shuffle_dataset=False"
        )
    return dataset.shuffle(seed=seed)


@dataclass(slots=True, eq=False)
class StreamedRows:
    """The rows of a stream, `prompts_per_batch` at a time, without end: each epoch reads it again, in a new order.

    The order is that of `datasets`' buffered shuffle for `seed` and the epoch, the one that TRL takes. A trailing
    partial batch of an epoch is dropped. `starts`: the number of the first batch of each epoch that was begun; with it
    a resumed run reads its own epoch only, up to its place.
    """

    dataset: Any
    prompts_per_batch: int
    starts: list[int] = field(default_factory=lambda: [0])
    batches_per_epoch: None = None
    _epoch: int = 0
    _number: int = -1
    _held: Sequence[Mapping[str, Any]] = ()
    _stream: Iterator[Mapping[str, Any]] | None = None

    def records(self, number: int, places: Sequence[int]) -> list[Mapping[str, Any]]:
        """The rows at these places of generation batch `number`, counted from 0 over all epochs."""
        if self._stream is None or number < self._number:
            self._open(bisect_right(self.starts, number) - 1)
        while self._number < number:
            self._held = self._read()
            self._number += 1
        return [self._held[place] for place in places]

    def observe(self, collected: Any) -> None:
        """Nothing: the order is the stream's."""

    def state_dict(self) -> dict[str, Any]:
        """Where epochs began."""
        return {"starts": list(self.starts)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        self.starts, self._stream = list(state["starts"]), None

    def _open(self, epoch: int) -> None:
        if hasattr(self.dataset, "set_epoch"):
            self.dataset.set_epoch(epoch)
        self._epoch, self._number = epoch, self.starts[epoch] - 1
        self._stream = iter(self.dataset)

    def _read(self) -> Sequence[Mapping[str, Any]]:
        batch = self._next_rows()
        if len(batch) == self.prompts_per_batch:
            return batch
        if self._number + 1 > self.starts[self._epoch]:
            if self._epoch + 1 == len(self.starts):
                self.starts.append(self._number + 1)
            self._open(self._epoch + 1)
            batch = self._next_rows()
        if len(batch) < self.prompts_per_batch:
            raise UsageError(
                f"train_dataset streams {len(batch)} rows but one generation batch takes {self.prompts_per_batch} "
                "prompts; add rows, or lower generation_batch_size or raise num_generations"
            )
        return batch

    def _next_rows(self) -> list[Mapping[str, Any]]:
        assert self._stream is not None
        return list(islice(self._stream, self.prompts_per_batch))


class Filler(dict[str, Any]):
    """A row that counts nowhere: it fills the last batch of an evaluation on several ranks, which must all run it."""


class StreamedEvaluationRows(IterableDataset):
    """The rows of a stream as evaluation goes through them: each once for every completion, in an order of `seed`.

    `fill_up_to`: fillers follow until there is a multiple of it.
    """

    def __init__(self, rows: Any, num_generations: int, seed: int, fill_up_to: int = 1) -> None:
        self.rows = shuffled(rows, seed) if hasattr(rows, "shuffle") else rows
        self.num_generations = num_generations
        self.fill_up_to = fill_up_to

    def __iter__(self) -> Iterator[Any]:
        count, row = 0, {}
        for row in self.rows:
            for _ in range(self.num_generations):
                count += 1
                yield row
        for _ in range(-count % self.fill_up_to):
            yield Filler(row)
