"""A trial: a run of `plaudit train` in a process of its own, watched by its metrics."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from plaudit.run.curve import read_metrics, series
from plaudit.run.folder import RunFolder

STOP_S = 120.0
Status = Literal["running", "finished", "stopped", "failed"]


@dataclass(slots=True)
class Trial:
    """`params`: key paths of the run file to values. `parent`: the trial whose model it began with."""

    number: int
    params: Mapping[str, Any]
    folder: RunFolder
    parent: int | None = None
    status: Status = "running"
    process: subprocess.Popen[bytes] | None = None
    began_at: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def start(self, run_file: str) -> None:
        """Start the process; what it prints goes to log.txt in its folder."""
        self.folder.root.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "plaudit", "train", run_file, "--overwrite"]
        for name, value in {**self.params, "output_dir": str(self.folder.root)}.items():
            command += ["--set", f"{name}={toml_text(value)}"]
        with (self.folder.root / "log.txt").open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def poll(self) -> bool:
        """Whether it still runs; sets its status when it does not."""
        if self.process is None or self.status not in ("running", "stopped"):
            return False
        code = self.process.poll()
        if code is None:
            return True
        if self.status == "running":
            self.status = "finished" if code == 0 else "failed"
        self.seconds = time.monotonic() - self.began_at
        self.process = None
        return False

    def interrupt(self) -> None:
        """Have it save a checkpoint and stop."""
        self.status = "stopped"
        self._signal(signal.SIGINT)

    def end(self) -> None:
        """Make sure that it is gone, as gently as time allows."""
        if self.process is None:
            return
        self._signal(signal.SIGINT)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()
        self.poll()

    def points(self, metric: str) -> list[tuple[float, float]]:
        """(step, value) of a metric."""
        return series(read_metrics(self.folder.metrics), metric)

    def score(self, metric: str, window: int) -> tuple[int, float] | None:
        """The step reached, and the metric's mean over its newest `window` lines; None when there is none."""
        points = self.points(metric)[-window:]
        return (int(points[-1][0]), fmean(value for _, value in points)) if points else None

    def why(self) -> str:
        """The last line that it printed."""
        log = self.folder.root / "log.txt"
        lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        return lines[-1] if lines else "it printed nothing"

    def _signal(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)


def toml_text(value: Any) -> str:
    """A value as `--set` reads it."""
    return json.dumps(value)


def trial_folder(root: Path, number: int) -> RunFolder:
    """Where a trial lies."""
    return RunFolder(root / f"trial-{number}")
