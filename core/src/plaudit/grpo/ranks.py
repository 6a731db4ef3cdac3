"""What the processes of a run tell each other, in as few exchanges as possible and always by all of them.

Every exchange is a gather of one object, so that a rank that fails can answer whichever exchange the others wait in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import PlauditError

T = TypeVar("T")


class PeerError(PlauditError):
    """Another rank failed, so this one cannot go on."""


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

        When it raises on one, the exception passes here and every other rank raises PeerError naming that rank, so that
        none waits for ever.
        """
        if self.size == 1:
            return [work()]
        try:
            mine = work()
        except PeerError:
            raise
        except BaseException as error:
            self._send(Failed(f"{type(error).__name__}: {error}"))
            raise
        return self._exchange(mine)

    def total(self, numbers: Sequence[float]) -> list[float]:
        """The element-wise sum over ranks. Raises PeerError when another rank failed meanwhile."""
        if self.size == 1:
            return list(numbers)
        return [sum(column) for column in zip(*self._exchange(list(numbers)), strict=True)]

    def told(self, value: T) -> T:
        """What the first rank gave. Raises PeerError when another failed meanwhile."""
        return value if self.size == 1 else self._exchange(value)[0]

    def _exchange(self, value: T) -> list[T]:
        everyone = self._send(value)
        for rank, found in enumerate(everyone):
            if isinstance(found, Failed):
                raise PeerError(f"rank {rank} failed, and the others cannot go on without it: {found.message}")
        return everyone

    def _send(self, value: Any) -> list[Any]:
        from accelerate.utils import gather_object

        return gather_object([value])
