"""Fixtures of the tests that no single distribution owns: the workspace's distributions, their wheels, clean venvs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "pages"))
BUILD = (
    "import os, sys; from hatchling.build import build_wheel\n"
    "for folder in sys.argv[2:]:\n    os.chdir(folder); build_wheel(sys.argv[1])"
)


@dataclass(frozen=True)
class Member:
    """One distribution of the workspace: its folder and the [project] table of its pyproject."""

    folder: Path
    project: dict

    @property
    def name(self) -> str:
        return self.project["name"]

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class CleanVenv:
    """A fresh virtual environment that sees nothing of ours but what is installed into it. No network is used."""

    folder: Path
    wheels: Path

    @property
    def bin(self) -> Path:
        return self.folder / ("Scripts" if sys.platform == "win32" else "bin")

    def install(self, *what: str) -> None:
        """`pip install` from the folder of wheels alone; what they require must be there already."""
        python = str(self.bin / "python")
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--find-links"]
        done = subprocess.run([*pip, str(self.wheels), *what], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    def run(self, *command: str, cwd: Path, code: int = 0) -> str:
        """The standard output of a program of the venv, run in `cwd`."""
        program, *arguments = command
        done = subprocess.run(
            [str(self.bin / program), *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, env={}
        )
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def borrow(self, names: Iterable[str]) -> None:
        """Copy third-party distributions, with all that they require, from the environment of the tests."""
        site = next(self.folder.glob("lib/python*/site-packages"), self.folder / "Lib" / "site-packages")
        for name in _closure(names):
            for file in metadata.files(name) or ():
                source = Path(file.locate())
                if ".." not in file.parts and "__pycache__" not in file.parts and source.is_file():
                    target = site / file
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, target)


def _closure(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        requirements = [Requirement(text) for text in metadata.requires(name) or ()]
        todo += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


@pytest.fixture(scope="session")
def workspace() -> list[Member]:
    """Every distribution of the workspace, core first."""
    files = [ROOT / "core" / "pyproject.toml", ROOT / "sandbox" / "pyproject.toml"]
    files += sorted(ROOT.glob("verifiers/*/pyproject.toml")) + sorted(ROOT.glob("plugins/*/pyproject.toml"))
    return [Member(file.parent, tomllib.loads(file.read_text())["project"]) for file in files]


@pytest.fixture(scope="session")
def build() -> Callable[[Path, Iterable[Path]], None]:
    """build(into, folders): the wheel of each folder with a pyproject, by hatchling."""

    def build_wheels(into: Path, folders: Iterable[Path]) -> None:
        command = [sys.executable, "-c", BUILD, str(into), *map(str, folders)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr

    return build_wheels


@pytest.fixture(scope="session")
def wheels(workspace: list[Member], build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of every distribution of the workspace."""
    folder = tmp_path_factory.mktemp("wheels")
    build(folder, [member.folder for member in workspace])
    return folder


@pytest.fixture(scope="session")
def venv_of_core(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanVenv:
    """The venv that each test gets a copy of."""
    folder = tmp_path_factory.mktemp("core") / "venv"
    venv.EnvBuilder(symlinks=sys.platform != "win32").create(folder)
    made = CleanVenv(folder, wheels)
    made.borrow(["pluggy", "packaging", "rich"])
    made.install("plaudit")
    made.run("plaudit", "plugins", cwd=folder)  # compiles what is imported, for all copies
    return made


@pytest.fixture
def clean_venv(venv_of_core: CleanVenv, tmp_path: Path) -> CleanVenv:
    """A fresh venv with core installed from its wheel, and nothing besides but what core requires."""
    made = CleanVenv(tmp_path / "venv", venv_of_core.wheels)
    shutil.copytree(venv_of_core.folder, made.folder, symlinks=True, copy_function=os.link)
    script = made.bin / "plaudit"
    text = script.read_text().replace(str(venv_of_core.folder), str(made.folder))
    script.unlink()
    script.write_text(text)
    script.chmod(0o755)
    return made
