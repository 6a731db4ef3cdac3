"""The ranks of a run, as the generator with servers sees them."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Peers(Protocol):
    """The ranks of a run."""

    @property
    def index(self) -> int:
        """This rank; rank 0 sends the weights."""
        ...

    def told(self, value: T) -> T:
        """What rank 0 gave. Every rank must call it."""
        ...


class Alone:
    """A run of one process."""

    index = 0

    def told(self, value: T) -> T:
        """The same."""
        return value
