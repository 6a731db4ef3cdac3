"""The circuit breaker: a reward that only fails is left alone for a while, so that a step does not wait for it."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Literal

State = Literal["closed", "open", "half_open"]
LONGEST_COOLDOWN_S = 600.0
_log = logging.getLogger("plaudit.scoring")


class Breaker:
    """Opens after `failures` failed calls in a row; after `cooldown_s` one probe closes or reopens it.

    Each failed probe doubles the cooldown, up to ten minutes. Thread-safe; opening and closing are logged once each.
    """

    def __init__(self, name: str, *, failures: int, cooldown_s: float) -> None:
        self.name = name
        self.limit = failures
        self.first_cooldown_s = cooldown_s
        self.state: State = "closed"
        self.in_a_row = 0
        self._cooldown_s = cooldown_s
        self._opened = 0.0
        self._last = ""
        self._lock = threading.Lock()

    def allows(self) -> bool:
        """Whether a call may start now; the first one after the cooldown is the probe."""
        if self.state == "closed":
            return True
        with self._lock:
            if self.state == "open" and time.monotonic() - self._opened >= self._cooldown_s:
                self.state = "half_open"
                return True
            return False

    def refusal(self) -> str:
        """Why a call was refused."""
        return (
            f"not called: its circuit breaker is open after {self.in_a_row} failures in a row, the last: {self._last}"
        )

    def succeeded(self) -> None:
        """A call ended well."""
        if self.in_a_row == 0:
            return
        with self._lock:
            self.in_a_row = 0
            if self.state != "closed":
                self.state, self._cooldown_s = "closed", self.first_cooldown_s
                _log.warning("reward '%s' works again: its circuit breaker is closed", self.name)

    def failed(self, message: str) -> None:
        """A call failed for good, retries included."""
        with self._lock:
            self.in_a_row += 1
            self._last = message
            if self.state == "half_open":
                self._cooldown_s = min(self._cooldown_s * 2, LONGEST_COOLDOWN_S)
                self._open()
            elif self.state == "closed" and self.in_a_row >= self.limit:
                self._open()
                _log.warning(
                    "reward '%s' failed %d times in a row and is left out; the next try is in %.0f s. Last failure: %s",
                    self.name, self.in_a_row, self._cooldown_s, message,
                )  # fmt: skip

    def withdrawn(self) -> None:
        """The call was cancelled: it says nothing, and a cancelled probe gives its place to the next call."""
        with self._lock:
            if self.state == "half_open":
                self.state = "open"

    def _open(self) -> None:
        self.state, self._opened = "open", time.monotonic()

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps. After a resume an open breaker probes at once: the outage may be long over."""
        with self._lock:
            return {
                "state": "closed" if self.state == "closed" else "open",
                "in_a_row": self.in_a_row,
                "last": self._last,
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict`."""
        with self._lock:
            self.state, self.in_a_row, self._last = state["state"], state["in_a_row"], state["last"]
            self._opened = float("-inf")
