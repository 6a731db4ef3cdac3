"""A trial: a run of `plaudit train` in a process of its own, watched by its metrics."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from plaudit.grpo.saving.checkpoint_folders import newest_whole
from plaudit.run.curve import read_metrics, series
from plaudit.run.folder import RunFolder

from .processes import STOP_S, assignment_of, end_left_over
from .toml_values import toml_text

Status = Literal["running", "finished", "stopped", "failed", "interrupted"]
UNFINISHED = ("running", "interrupted")
"""Goes on when a sweep resumes."""


@dataclass(slots=True)
class Trial:
    """`params`: key paths of the run file to values. `parent`: the trial whose model it began with. `seconds`: that it
    ran before it was started now.
    """

    number: int
    params: Mapping[str, Any]
    folder: RunFolder
    parent: int | None = None
    status: Status = "running"
    process: subprocess.Popen[bytes] | None = None
    seconds: float = 0.0
    _began_at: float = 0.0
    _asked_to_stop: bool = False

    def start(self, run_file: str) -> None:
        """Start the process, from its newest checkpoint if there is one; what it prints is added to its log.txt."""
        self.folder.root.mkdir(parents=True, exist_ok=True)
        how = "--overwrite" if newest_whole(self.folder.root) is None else "--resume"
        command = [sys.executable, "-m", "plaudit", "train", run_file, how]
        values = [f"{name}={toml_text(value)}" for name, value in self.params.items()]
        for assignment in (*values, assignment_of(self.folder.root)):
            command += ["--set", assignment]
        with (self.folder.root / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self.status, self._asked_to_stop, self._began_at = "running", False, time.monotonic()

    def poll(self) -> bool:
        """Whether it still runs; sets its status when it does not."""
        if self.process is None:
            return False
        code = self.process.poll()
        if code is None:
            return True
        if self.status == "running":
            self.status = "finished" if code == 0 else "failed"
        elif self.status == "interrupted" and code == 0:
            self.status = "finished"
        self.seconds = self.ran_s()
        self.process = None
        return False

    def ran_s(self) -> float:
        """Seconds that it ran, all parts together."""
        return self.seconds + (time.monotonic() - self._began_at if self.process is not None else 0.0)

    def interrupt(self, status: Status) -> None:
        """Have it save a checkpoint and stop: `stopped` for good, or `interrupted` to go on later."""
        if self.status == "running":
            self.status = status
        # A second signal would end it without a checkpoint.
        if self.process is not None and self.process.poll() is None and not self._asked_to_stop:
            self._asked_to_stop = True
            os.killpg(self.process.pid, signal.SIGINT)

    def wait(self) -> None:
        """Wait for one that was interrupted; kill it when it takes too long."""
        if self.process is None:
            return
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.poll()

    def take_over(self) -> None:
        """End the process that a killed sweep left behind, which saves a checkpoint first, and see how far it came."""
        end_left_over(self.folder.root)
        if self.status in UNFINISHED and self.folder.report.exists():
            self.status = "finished"

    def points(self, metric: str) -> list[tuple[float, float]]:
        """(step, value) of a metric."""
        return series(read_metrics(self.folder.metrics), metric)

    def score(self, metric: str, window: int) -> tuple[int, float] | None:
        """The step reached, and the metric's mean over its newest `window` lines; None when there is none."""
        points = self.points(metric)[-window:]
        return (int(points[-1][0]), fmean(value for _, value in points)) if points else None

    def name(self) -> str:
        """Its number, with that of the trial it was cloned from."""
        return str(self.number) if self.parent is None else f"{self.number} (of {self.parent})"

    def describe(self, names: Collection[str]) -> str:
        """Those of its parameters in one line, each by the last part of its name."""
        shown = {name.rpartition(".")[2]: value for name, value in self.params.items() if name in names}
        return ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in shown.items()
        )

    def why(self) -> str:
        """The last line that it printed."""
        log = self.folder.root / "log.txt"
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return lines[-1] if lines else "it printed nothing"


def trial_folder(root: Path, number: int) -> RunFolder:
    """Where a trial lies."""
    return RunFolder(root / f"trial-{number}")
