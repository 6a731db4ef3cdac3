"""Processes that outlived the sweep which started them, known by the folder that they write to."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .toml_values import toml_text

STOP_S = 120.0


def assignment_of(folder: Path) -> str:
    """What stands on the command line of the process that writes to a trial's folder, and of no other."""
    return f"output_dir={toml_text(str(folder.resolve()))}"


def end_left_over(folder: Path) -> None:
    """Ctrl-C to whatever still writes to a trial's folder, and time to save a checkpoint; kill it if it takes long."""
    for process in writers_to(folder):
        _signal(process, signal.SIGINT)
    give_up = time.monotonic() + STOP_S
    while left := writers_to(folder):
        if time.monotonic() > give_up:
            for process in left:
                _signal(process, signal.SIGKILL)
        time.sleep(0.1)


def writers_to(folder: Path) -> list[Any]:
    """The processes that write to a trial's folder."""
    import psutil

    wanted = assignment_of(folder)
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if wanted in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def _signal(process: Any, number: int) -> None:
    with suppress(ProcessLookupError):
        # It leads a group of its own: what it started goes with it.
        os.killpg(process.pid, number)
