"""Building wheels, and fresh virtual environments to try them in."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from plaudit.errors import UsageError

OUTPUT_TAIL = 1500


def run_command(command: Sequence[str], *, cwd: Path | None = None) -> str:
    """The command's stdout. Raises UsageError with the end of what it said, stdout last, where it fails."""
    done = subprocess.run(list(command), capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        said = "\n".join(part for part in (done.stderr.strip(), done.stdout.strip()) if part)
        raise UsageError(said[-OUTPUT_TAIL:].removeprefix("error: "))
    return done.stdout


def build_wheel(project: Path, output: Path) -> Path:
    """Build the project's wheel into `output`. Its build back end must be installed here."""
    run_command(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(output), "."],
        cwd=project,
    )
    return next(output.glob("*.whl"))


def environment_with(wheel: Path, folder: Path) -> Path:
    """The Python of a fresh environment that sees this one's packages, with the wheel in front of them."""
    if not wheel.is_file():
        raise UsageError(f"there is no wheel {wheel}")
    home = folder / "venv"
    venv.create(home, with_pip=False)
    python = home / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    packages = next((home / "lib").glob("python*/site-packages"), home / "Lib" / "site-packages")
    here = [path for path in sys.path if path and Path(path).is_dir()]
    (packages / "zz_plaudit_beside.pth").write_text("\n".join(here), encoding="utf-8")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(packages)]
    run_command([*install, str(wheel.resolve())])
    return python
