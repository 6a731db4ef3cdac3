"""A bound on the time that comparing one pair may take in this thread, for work that is long without being symbolic."""

from __future__ import annotations

import threading
import time

from plaudit_math.failures import TooLarge

_LOCAL = threading.local()


def begin(seconds: float) -> None:
    """From now on `check` raises once `seconds` have passed."""
    _LOCAL.until = time.monotonic() + seconds


def left() -> float:
    """Seconds until the bound; negative beyond it."""
    until: float = getattr(_LOCAL, "until", float("inf"))
    return until - time.monotonic()


def check() -> None:
    """Raises TooLarge beyond the bound."""
    if left() < 0:
        raise TooLarge("too much work")
