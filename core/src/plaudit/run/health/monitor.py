"""Runs the checks at each log line, and says each finding once until it was gone for a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import TrainerCallback

from .checks import CHECKS, NOTES, Finding
from .history import History

QUIET_LINES = 20


class HealthMonitor(TrainerCallback):
    """A callback of the Trainer. `findings`: all that was found, each the first time it came.

    `history`: empty but for what it knows of the run. `say`: shows a finding; only the main process does.
    """

    def __init__(self, history: History, say: Callable[[str], None]) -> None:
        self.history = history
        self.findings: list[Finding] = []
        self._say = say
        self._seen: dict[str, int] = {}

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Called by the Trainer with each log line."""
        if not state.is_world_process_zero or not logs:
            return
        before = len(self.history)
        self.history.add(state.global_step, logs)
        if len(self.history) > before:
            for finding in self.check():
                self._say(str(finding))

    def check(self) -> Sequence[Finding]:
        """What is found now that was not found in the last `QUIET_LINES` lines."""
        new = []
        for name, check in CHECKS.items():
            found = check(self.history)
            if found is None:
                continue
            last = self._seen.get(name)
            self._seen[name] = len(self.history)
            if last is None or len(self.history) - last > QUIET_LINES:
                level = "note" if name in NOTES else "warning"
                new.append(Finding(name, *found, step=self.history.step, level=level))
        self.findings += new
        return new
