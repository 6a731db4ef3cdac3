"""Scoring a file with a component that is installed here, or with one from a wheel in an environment of its own."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from plaudit.authoring.environment import environment_with, run_command


def score_file(reference: str, data: Path, more: Sequence[str]) -> list[float | None]:
    """The scores of a file's rows by `plaudit score REFERENCE --data FILE …`, run in a process of its own.

    `reference` is a component, or `PATH.whl:NAME`: the wheel is then installed beside plaudit in a temporary virtual
    environment, so that two versions can be compared. Raises UsageError with the command's own message where it fails.
    """
    with tempfile.TemporaryDirectory(prefix="plaudit-diff-") as folder:
        wheel, _, name = reference.rpartition(":")
        if wheel.endswith(".whl"):
            python, reference = environment_with(Path(wheel), Path(folder)), name
        else:
            python = Path(sys.executable)
        output = Path(folder) / "scored.jsonl"
        command = [
            str(python),
            "-m",
            "plaudit",
            "score",
            reference,
            "--data",
            str(data),
            "--output",
            str(output),
            *more,
        ]
        run_command(command)
        rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    own = f"{reference.rpartition(':')[2]}/score"
    return [row[own] if own in row else row["score"] for row in rows]
