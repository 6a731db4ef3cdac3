"""A page of memory that a run's processes share with the agent until the program's first instruction.

It tells the agent how far a run came: what failed before the program began is the sandbox's fault, and a program must
not be able to claim that. So each process unmaps it before it hands over to the program.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import NoReturn

_LAYOUT = struct.Struct("=BBxxxxxxdiddq")
_ERROR_AT = 64
_SIZE = 4096

SETTING_UP, COMPILING, RUNNING = 0, 1, 2


class Report:
    """Stage, start time (monotonic seconds) and, from an init process, the program's exit."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _SIZE)
        self.reset()

    def reset(self) -> None:
        """Before a run."""
        self._page[:] = bytes(_SIZE)

    def enter(self, stage: int) -> None:
        """Note that `stage` begins now."""
        _, exited, _, *rest = _LAYOUT.unpack_from(self._page)
        _LAYOUT.pack_into(self._page, 0, stage, exited, time.monotonic(), *rest)

    def fail(self, error: BaseException) -> None:
        """Note what went wrong while setting up."""
        text = f"{type(error).__name__}: {error}".encode()[: _SIZE - _ERROR_AT - 2]
        struct.pack_into("=H", self._page, _ERROR_AT, len(text))
        self._page[_ERROR_AT + 2 : _ERROR_AT + 2 + len(text)] = text

    def exit(self, status: int, user_s: float, system_s: float, max_rss_kb: int) -> None:
        """Note how the program ended: wait status, CPU seconds, largest resident set in KiB."""
        stage, _, started, *_ = _LAYOUT.unpack_from(self._page)
        _LAYOUT.pack_into(self._page, 0, stage, 1, started, status, user_s, system_s, max_rss_kb)

    def close(self) -> None:
        """Unmap it from this process."""
        self._page.close()

    @property
    def stage(self) -> int:
        """SETTING_UP, COMPILING or RUNNING."""
        return self._page[0]

    @property
    def started(self) -> float:
        """When the stage began, in monotonic seconds."""
        return float(_LAYOUT.unpack_from(self._page)[2])

    @property
    def exited(self) -> tuple[int, float, int] | None:
        """(wait status, CPU seconds, KiB) as an init process noted it."""
        _, exited, _, status, user_s, system_s, max_rss_kb = _LAYOUT.unpack_from(self._page)
        return (status, user_s + system_s, max_rss_kb) if exited else None

    @property
    def error(self) -> str:
        """What `fail` noted; "" if nothing."""
        (length,) = struct.unpack_from("=H", self._page, _ERROR_AT)
        return self._page[_ERROR_AT + 2 : _ERROR_AT + 2 + length].decode(errors="replace")


def wait_and_report(pid: int, report: Report) -> NoReturn:
    """As the init of a PID namespace: reap until the program ends, note how, and take everything down by exiting."""
    while True:
        ended, status, usage = os.wait4(-1, 0)
        if ended == pid:
            report.exit(status, usage.ru_utime, usage.ru_stime, usage.ru_maxrss)
            os._exit(0)
