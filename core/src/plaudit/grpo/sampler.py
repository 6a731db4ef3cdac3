"""Which rows each generation batch takes, and which rank writes which rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from ..errors import UsageError


class Rows(Protocol):
    """The rows of generation batches, addressed by the batch's number, counted from 0 over all epochs."""

    @property
    def batches_per_epoch(self) -> int | None:
        """Whole generation batches in one pass over the rows; None when nobody knows."""
        ...

    @property
    def prompts_per_batch(self) -> int:
        """Rows of a generation batch."""
        ...

    def records(self, number: int, places: Sequence[int]) -> list[Mapping[str, Any]]:
        """The rows at these places of generation batch `number`."""
        ...

    def observe(self, collected: Any) -> None:
        """Take note of the scores of the oldest generation batch that is not scored yet."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        ...


@dataclass(slots=True, eq=False)
class IndexedRows:
    """The rows of a dataset that any row can be read from. Only those that are asked for are read."""

    dataset: Any
    sampler: PromptSampler
    batches_per_epoch: int = field(init=False)
    prompts_per_batch: int = field(init=False)

    def __post_init__(self) -> None:
        self.batches_per_epoch = self.sampler.batches_per_epoch
        self.prompts_per_batch = self.sampler.prompts_per_batch

    def records(self, number: int, places: Sequence[int]) -> list[Mapping[str, Any]]:
        """The rows at these places of generation batch `number`."""
        batch = self.sampler.batch(number)
        return [self.dataset[batch[place]] for place in places]

    def observe(self, collected: Any) -> None:
        """Nothing: the order follows from the seed."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the order follows from the seed."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing is kept."""


@dataclass(slots=True)
class PromptSampler:
    """Row indices, `prompts_per_batch` at a time, without end: each epoch goes through the dataset in a new order.

    One generator, seeded once, draws a permutation an epoch. A trailing partial batch of an epoch is dropped.
    Batches are addressed by number, so that a resumed run continues in the middle of an epoch.
    """

    num_rows: int
    prompts_per_batch: int
    seed: int
    shuffle: bool = True
    _epoch: int = -1
    _order: tuple[int, ...] = ()
    _generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        """Raise UsageError when the dataset cannot fill one batch."""
        if self.num_rows < self.prompts_per_batch:
            raise UsageError(
                f"the dataset has {self.num_rows} rows but one generation batch takes {self.prompts_per_batch} "
                "prompts; "
                "add rows, or lower generation_batch_size (per_device_train_batch_size x steps_per_generation x ranks) "
                "or raise num_generations"
            )

    @property
    def batches_per_epoch(self) -> int:
        """Whole generation batches in one pass over the dataset."""
        return self.num_rows // self.prompts_per_batch

    def batch(self, number: int) -> tuple[int, ...]:
        """The `prompts_per_batch` distinct row indices of generation batch `number`, counted from 0 over all epochs."""
        epoch, place = divmod(number, self.batches_per_epoch)
        order = self._permutation(epoch)
        return order[place * self.prompts_per_batch : (place + 1) * self.prompts_per_batch]

    def _permutation(self, epoch: int) -> tuple[int, ...]:
        if not self.shuffle:
            return tuple(range(self.num_rows))
        if self._generator is None or epoch < self._epoch:
            self._generator, self._epoch = torch.Generator().manual_seed(self.seed), -1
        while self._epoch < epoch:
            self._order = tuple(torch.randperm(self.num_rows, generator=self._generator).tolist())
            self._epoch += 1
        return self._order


def evaluation_order(num_rows: int, num_generations: int, seed: int) -> list[int]:
    """Every row `num_generations` times in a row, the rows in a shuffled order that `seed` fixes."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed)).tolist()
    return [index for index in order for _ in range(num_generations)]


def rank_share(indices: tuple[int, ...], *, num_generations: int, rank: int, world_size: int) -> list[int]:
    """Repeat each row `num_generations` times, and take the consecutive share of `rank`; a group may span two ranks."""
    repeated = [index for index in indices for _ in range(num_generations)]
    size = len(repeated) // world_size
    return repeated[rank * size : (rank + 1) * size]
