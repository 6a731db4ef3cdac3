"""How often a generation batch is used."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """How a generation batch is used: split into `steps_per_generation` micro-batches, all of them `num_iterations`
    times.
    """

    num_generations: int
    steps_per_generation: int
    num_iterations: int = 1

    @property
    def cycle(self) -> int:
        """Micro-batches from one generation to the next."""
        return self.steps_per_generation * self.num_iterations
