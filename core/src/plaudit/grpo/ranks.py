"""What the processes of a run tell each other, in as few exchanges as possible and always by all of them.

Every exchange is a gather of one object, so that a rank that fails can answer whichever exchange the others wait in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import PlauditError

T = TypeVar("T")
_FAILED = "plaudit/failed"
_TOLD = "_plaudit_all_ranks_know"


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
            with suppress(RuntimeError):
                self._send(Failed(f"{type(error).__name__}: {error}"))
            setattr(error, _TOLD, True)
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

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around work whose exchanges are tensors (forward, backward): a rank that fails there cannot answer.

        It leaves word of its error in the store of the process group. When it has gone, the others' exchanges break,
        and they raise PeerError with that word.
        """
        if self.size == 1:
            yield
            return
        try:
            yield
        except PlauditError:
            raise  # all ranks raise these together
        except Exception as error:
            if getattr(error, _TOLD, False):
                raise
            told = _word_of_failure()
            if told is not None:
                raise PeerError(f"rank {told}") from error
            if _is_broken_exchange(error):
                raise PeerError(f"another rank ended, and its own output says why ({error})") from error
            _leave_word(f"{self.index} failed, and the others cannot go on without it: {type(error).__name__}: {error}")
            raise

    def _exchange(self, value: T) -> list[T]:
        everyone = self._send(value)
        for rank, found in enumerate(everyone):
            if isinstance(found, Failed):
                raise PeerError(f"rank {rank} failed, and the others cannot go on without it: {found.message}")
        return everyone

    def _send(self, value: Any) -> list[Any]:
        from accelerate.utils import gather_object

        return gather_object([value])


def _store() -> Any:
    # torch has no public way to reach the store that every process group brings.
    from torch.distributed import distributed_c10d

    return distributed_c10d._get_default_store()


def _leave_word(message: str) -> None:
    with suppress(Exception):
        _store().set(_FAILED, message)


def _word_of_failure() -> str | None:
    """What the first rank that failed said; None when none did, or when nobody can tell."""
    with suppress(Exception):
        store = _store()
        if store.check([_FAILED]):
            return str(store.get(_FAILED).decode())
    return None


def _is_broken_exchange(error: Exception) -> bool:
    from torch.distributed import DistBackendError, DistNetworkError

    named = isinstance(error, (DistBackendError, DistNetworkError))
    return named or (isinstance(error, RuntimeError) and ("gloo" in str(error) or "Connection" in str(error)))
