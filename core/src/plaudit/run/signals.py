"""Signals that end a command which has processes of its own to end first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def terminated_as_interrupt() -> Iterator[None]:
    """SIGTERM is a KeyboardInterrupt as Ctrl-C is, which also counts where a shell started this in the background."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
