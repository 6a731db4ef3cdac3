"""The ranks of a run as the maths sees them, so that quantiles and means are those of the whole micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

# Entropies are never negative, so this cannot be mistaken for one.
_PADDING = -1e9


@dataclass(frozen=True, slots=True)
class World:
    """One process by itself, or all ranks of an `accelerate.Accelerator`. Every rank must make the same calls."""

    accelerator: Any = None

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return 1 if self.accelerator is None else int(self.accelerator.num_processes)

    def gather(self, values: Tensor) -> Tensor:
        """Tensors of equal shape from every rank, one after another along the first dimension."""
        return values if self.size == 1 else self.accelerator.gather(values)

    def gather_ragged(self, values: Tensor) -> Tensor:
        """One-dimensional tensors of any lengths from every rank, joined. Values must be above -1e9."""
        if self.size == 1:
            return values
        padded = self.accelerator.pad_across_processes(values, dim=0, pad_index=_PADDING)
        gathered = self.accelerator.gather(padded)
        return gathered[gathered != _PADDING]
