"""Make the environments of neighbours.toml: `python tests/bridges/make_neighbours.py [NAME …]`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".neighbours"
NEIGHBOURS = tomllib.loads((Path(__file__).parent / "neighbours.toml").read_text())


def python_of(name: str) -> Path:
    """The interpreter of a neighbour's environment."""
    return FOLDER / name / "bin" / "python"


def base_python(version: str | None) -> str | None:
    """An interpreter of that version; None when this machine has none."""
    if version is None:
        return sys.executable
    candidates = [
        shutil.which(f"python{version}"),
        *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
    ]
    for candidate in filter(None, candidates):
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def make(name: str) -> None:
    """Make one, unless it is there as the file says."""
    wanted = NEIGHBOURS[name]
    stamp = FOLDER / name / "installed"
    if stamp.is_file() and stamp.read_text() == repr(wanted):
        return
    base = base_python(wanted.get("python"))
    if base is None:
        print(f"{name}: left out, there is no Python {wanted['python']} here")
        return
    subprocess.run([base, "-m", "venv", "--clear", FOLDER / name], check=True)
    pip = [python_of(name), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, *wanted["packages"], "pytest", "pytest-asyncio", "aiohttp"], check=True)
    if wanted.get("no_deps"):
        subprocess.run([*pip, "--no-deps", *wanted["no_deps"]], check=True)
    extras = f"[{','.join(wanted['extras'])}]" if wanted.get("extras") else ""
    subprocess.run([*pip, "-e", f"{ROOT / 'core'}{extras}", "-e", ROOT / "verifiers" / "plaudit-match"], check=True)
    for member in wanted.get("members", ()):
        subprocess.run([*pip, "--no-deps", "-e", ROOT / member], check=True)
    stamp.write_text(repr(wanted))
    print(f"{name}: {', '.join(wanted['packages'] + wanted.get('no_deps', []))}")


if __name__ == "__main__":
    for asked in sys.argv[1:] or NEIGHBOURS:
        make(asked)
