"""A Harbor task folder (harbor 0.25, schema 1.x) as it lies on disk."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError

_INSTALLS = re.compile(r"^\s*(RUN|ADD)\b", re.MULTILINE | re.IGNORECASE)
_WORKDIR = re.compile(r"^\s*WORKDIR\s+(\S+)", re.MULTILINE | re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<other>[^}]*))?\}")
_MOVED = ("tests", "logs", "solution")


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A task folder. `workdir`: of its Dockerfile. `env`, `verifier_env`: variables of the task, and of its tests.

    `needs`: what of its container a sandbox as it is does not have; None = nothing.
    """

    folder: Path
    instruction: str
    verifier_timeout_s: float
    workdir: str
    env: Mapping[str, str]
    verifier_env: Mapping[str, str]
    needs: str | None

    @classmethod
    def read(cls, folder: Path) -> HarborTask:
        """Read a task folder. Raises UsageError naming what is missing."""
        for name in ("task.toml", "instruction.md", "tests/test.sh"):
            if not (folder / name).is_file():
                raise UsageError(f"{folder} is no Harbor task: it has no {name}")
        settings = _settings(folder / "task.toml")
        environment, verifier = settings["environment"], settings["verifier"]
        dockerfile = folder / "environment" / "Dockerfile"
        recipe = dockerfile.read_text(encoding="utf-8") if dockerfile.is_file() else ""
        workdir = _WORKDIR.findall(recipe)
        return cls(
            folder=folder,
            instruction=(folder / "instruction.md").read_text(encoding="utf-8").strip(),
            verifier_timeout_s=_seconds(verifier.get("timeout_sec", 600.0), folder / "task.toml"),
            workdir=str(environment.get("workdir") or (workdir[-1] if workdir else "/app")),
            env=_variables(environment.get("env") or {}, folder / "task.toml"),
            verifier_env=_variables(verifier.get("env") or {}, folder / "task.toml"),
            needs=_needs(folder, recipe, environment),
        )

    def files(self, *parts: str) -> dict[str, bytes]:
        """The files of these folders by path, with the task's absolute paths made the session's."""
        found = {}
        for part in parts:
            root = self.folder / part
            for path in sorted(root.rglob("*")) if root.is_dir() else ():
                if path.is_file() and path.name != "Dockerfile":
                    name = path.relative_to(root).as_posix()
                    target = f"tests/{name}" if part == "tests" else name
                    found[target] = self._moved(path.read_bytes(), shell=path.suffix == ".sh")
        return found

    def moved(self, text: str, *, shell: bool) -> str:
        """A script finds the session's folder by a variable, wherever it has gone; other programs run in it."""
        root = "$HARBOR_ROOT" if shell else "."
        for name in _MOVED:
            text = re.sub(rf"(?<![\w/.])/{name}\b", f"{root}/{name}", text)
        return re.sub(rf"(?<![\w/.]){re.escape(self.workdir)}\b", root, text)

    def _moved(self, content: bytes, *, shell: bool) -> bytes:
        try:
            return self.moved(content.decode(), shell=shell).encode()
        except UnicodeDecodeError:
            return content


def _settings(path: Path) -> dict[str, Any]:
    """A task.toml, with the two tables that are read. Raises UsageError on one that is none, or of several steps."""
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    if settings.get("steps"):
        raise UsageError(f"{path} has [[steps]]; a task of several steps is not run here, one instruction is one task")
    for name in ("environment", "verifier"):
        if not isinstance(settings.setdefault(name, {}), dict):
            raise UsageError(f"{path}: {name} = {settings[name]!r}; expected a table")
    return settings


def _seconds(value: Any, path: Path) -> float:
    if not is_number(value) or not value > 0:
        raise UsageError(f"{path}: verifier.timeout_sec = {value!r}; expected a number of seconds above 0")
    return float(value)


def _variables(env: Any, path: Path) -> dict[str, str]:
    """Variables; `${NAME}` is that of this process. Raises UsageError where it is not set."""
    if not isinstance(env, Mapping) or not all(isinstance(value, str) for value in env.values()):
        raise UsageError(f"{path}: env = {env!r:.80}; expected a table of texts")
    found = {}
    for name, value in env.items():
        asked = _VARIABLE.fullmatch(value)
        told = os.environ.get(asked["name"], asked["other"]) if asked else value
        if told is None:
            raise UsageError(f"{path}: env.{name} is {value}, and this process has no {asked['name'] if asked else ''}")
        found[str(name)] = told
    return found


def _needs(folder: Path, recipe: str, environment: Mapping[str, Any]) -> str | None:
    if (folder / "environment" / "docker-compose.yaml").is_file():
        return "it has a docker-compose.yaml of services"
    if environment.get("docker_image"):
        return f"it runs in the image {environment['docker_image']}"
    return "its Dockerfile installs software" if _INSTALLS.search(recipe) else None


def is_number(value: Any) -> bool:
    """Whether it is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
