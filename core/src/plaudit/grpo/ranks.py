"""What the processes of a run tell each other, in as few exchanges as possible and always by all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import PlauditError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """What a rank sends instead of its share when it raised."""

    message: str


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes of an accelerate run, or the only one."""

    accelerator: Any

    @property
    def index(self) -> int:
        """This process, from 0."""
        return self.accelerator.process_index

    @property
    def size(self) -> int:
        """How many processes there are."""
        return self.accelerator.num_processes

    def share(self, work: Callable[[], T]) -> list[T]:
        """Do `work` on every rank and return the results of all, in rank order.

        When it raises on one, the exception passes here and every other rank raises PlauditError naming that rank, so
        that none waits for ever.
        """
        if self.size == 1:
            return [work()]
        try:
            mine: T | Failed = work()
        except Exception as error:
            self._gather(Failed(f"{type(error).__name__}: {error}"))
            raise
        everyone = self._gather(mine)
        for rank, found in enumerate(everyone):
            if isinstance(found, Failed):
                raise PlauditError(f"rank {rank} failed while others went on: {found.message}")
        return everyone

    def _gather(self, value: Any) -> list[Any]:
        from accelerate.utils import gather_object

        return gather_object([value])
