"""A page of memory that a run's processes share with the agent until the program's first instruction.

It tells the agent how far a run came: what failed before the program began is the sandbox's fault, and a program must
not be able to claim that. So each process unmaps it before it hands over to the program.
"""

from __future__ import annotations

import mmap
import struct
import time

_STARTED = struct.Struct("=d")
_STARTED_AT = 8
_ERROR_AT = 64
_SIZE = 4096

SETTING_UP, COMPILING, RUNNING = 0, 1, 2


class Report:
    """Stage, its start (monotonic seconds), and what went wrong before the program."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _SIZE)
        self.reset()

    def reset(self) -> None:
        """Before a run."""
        self._page[:] = bytes(_SIZE)

    def enter(self, stage: int) -> None:
        """Note that `stage` begins now."""
        # The stage last: the agent may look in between.
        _STARTED.pack_into(self._page, _STARTED_AT, time.monotonic())
        self._page[0] = stage

    def fail(self, error: BaseException) -> None:
        """Note what went wrong while setting up."""
        text = f"{type(error).__name__}: {error}".encode()[: _SIZE - _ERROR_AT - 2]
        struct.pack_into("=H", self._page, _ERROR_AT, len(text))
        self._page[_ERROR_AT + 2 : _ERROR_AT + 2 + len(text)] = text

    def close(self) -> None:
        """Unmap it from this process."""
        self._page.close()

    @property
    def stage(self) -> int:
        """SETTING_UP, COMPILING or RUNNING."""
        return self._page[0]

    @property
    def started(self) -> float:
        """When the stage began, in monotonic seconds; now, if that is not written yet."""
        return float(_STARTED.unpack_from(self._page, _STARTED_AT)[0]) or time.monotonic()

    @property
    def error(self) -> str:
        """What `fail` noted; "" if nothing."""
        (length,) = struct.unpack_from("=H", self._page, _ERROR_AT)
        return self._page[_ERROR_AT + 2 : _ERROR_AT + 2 + length].decode(errors="replace")
