"""Scoring a file with a component that is installed here, or with one from a wheel in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from plaudit.errors import UsageError

OUTPUT_TAIL = 1500


def score_file(reference: str, data: Path, more: Sequence[str]) -> list[float | None]:
    """The scores of a file's rows by `plaudit score REFERENCE --data FILE …`, run in a process of its own.

    `reference` is a component, or `PATH.whl:NAME`: the wheel is then installed beside plaudit in a temporary virtual
    environment, so that two versions can be compared. Raises UsageError with the command's own message where it fails.
    """
    with tempfile.TemporaryDirectory(prefix="plaudit-diff-") as folder:
        wheel, _, name = reference.rpartition(":")
        if wheel.endswith(".whl"):
            python, reference = _environment_with(Path(wheel), Path(folder)), name
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
        _run(command)
        rows = [json.loads(line) for line in output.read_text("utf-8").splitlines()]
    own = f"{reference.rpartition(':')[2]}/score"
    return [row[own] if own in row else row["score"] for row in rows]


def _environment_with(wheel: Path, folder: Path) -> Path:
    """The Python of a fresh environment that sees this one's packages, with the wheel in front of them."""
    if not wheel.is_file():
        raise UsageError(f"there is no wheel {wheel}")
    home = folder / "venv"
    venv.create(home, with_pip=True, system_site_packages=False)
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    packages = next((home / "lib").glob("python*/site-packages"), home / "Lib" / "site-packages")
    here = "\n".join(path for path in sys.path if path and Path(path).is_dir())
    (packages / "zz_plaudit_diff.pth").write_text(here, encoding="utf-8")
    _run([str(python), "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel.resolve())])
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError((done.stderr or done.stdout).strip()[-OUTPUT_TAIL:].removeprefix("error: "))
