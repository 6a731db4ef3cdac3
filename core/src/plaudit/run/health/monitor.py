"""Runs the checks at each log line, and says each finding once until it was gone for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from transformers import TrainerCallback

from .checks import CHECKS, NOTES
from .finding import Finding
from .history import History
from .of_rewards import HELDOUT_FALL, hacking_suspected

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

    def replay(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Take in the log lines of a run that goes on: what was found then counts, and is not said again."""
        for line in lines:
            self._take(int(line["step"]), line)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Called by the Trainer with each log line."""
        if not state.is_world_process_zero or not logs:
            return
        for finding in self._take(state.global_step, logs):
            self._say(str(finding))

    def _take(self, step: int, logs: Mapping[str, Any]) -> Sequence[Finding]:
        before = len(self.history)
        self.history.add(step, logs)
        return self.check() if len(self.history) > before else ()

    def conclude(self, before: Mapping[str, float | None], after: Mapping[str, float | None], rows: int) -> None:
        """Compare held-out means before and after training, "reward" among them, with what training gained."""
        rewards = self.history.values("reward")
        part = max(1, len(rewards) // 4)
        gained = fmean(rewards[-part:]) - fmean(rewards[:part]) if len(rewards) > 1 else 0.0
        for name, first in before.items():
            last = after.get(name)
            if gained <= 0 or first is None or last is None:
                continue
            # Rows count most where a score is 0 or 1; the same rows are judged twice.
            if first - last > max(HELDOUT_FALL, rows**-0.5):
                found = Finding(
                    "reward_hacking", *hacking_suspected(gained, name, last - first), step=self.history.step
                )
                self.findings.append(found)
                self._say(str(found))
                return

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
