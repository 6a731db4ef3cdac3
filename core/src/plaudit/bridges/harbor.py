"""Harbor task folders (harbor 0.25, schema 1.x) as rows and an environment, named `harbor`, in our sandboxes.

    [data]
    name = "harbor"
    options = {folder = "tasks"}

    [[environment]]
    name = "harbor"
    options = {backend = "docker"}

A task folder holds task.toml, instruction.md, environment/ and tests/test.sh, which writes a reward to
/logs/verifier/reward.txt or reward.json. A session has no root of its own: the task's absolute paths /tests, /logs,
/solution and its working directory are read as folders of the session.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plaudit.errors import PlauditError, UsageError

REWARD_FILES = ("logs/verifier/reward.json", "logs/verifier/reward.txt")
_INSTALLS = re.compile(r"^\s*(RUN|ADD)\b", re.MULTILINE | re.IGNORECASE)
_WORKDIR = re.compile(r"^\s*WORKDIR\s+(\S+)", re.MULTILINE | re.IGNORECASE)
_FROM = re.compile(r"^\s*FROM\s+(\S+)", re.MULTILINE | re.IGNORECASE)
_MOVED = ("tests", "logs", "solution")


class RewardFileError(PlauditError):
    """A task's tests left no reward that can be read."""


@dataclass(frozen=True, slots=True)
class HarborTask:
    """A task folder. `workdir`: of its Dockerfile. `image`: what that begins with, if it begins with one."""

    folder: Path
    instruction: str
    verifier_timeout_s: float
    workdir: str
    image: str | None
    installs: bool

    @classmethod
    def read(cls, folder: Path) -> HarborTask:
        """Read a task folder. Raises UsageError naming what is missing."""
        for name in ("task.toml", "instruction.md", "tests/test.sh"):
            if not (folder / name).is_file():
                raise UsageError(f"{folder} is no Harbor task: it has no {name}")
        try:
            settings = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{folder / 'task.toml'} is not TOML: {error}") from None
        dockerfile = folder / "environment" / "Dockerfile"
        recipe = dockerfile.read_text(encoding="utf-8") if dockerfile.is_file() else ""
        workdir, image = _WORKDIR.findall(recipe), _FROM.findall(recipe)
        return cls(
            folder=folder,
            instruction=(folder / "instruction.md").read_text(encoding="utf-8").strip(),
            verifier_timeout_s=float(settings.get("verifier", {}).get("timeout_sec", 600.0)),
            workdir=workdir[-1] if workdir else "/app",
            image=image[0] if image else None,
            installs=bool(_INSTALLS.search(recipe)),
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

    def _moved(self, content: bytes, *, shell: bool) -> bytes:
        """A script finds the session's folder by a variable, wherever it has gone; other programs run in it."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        root = "$HARBOR_ROOT" if shell else "."
        for name in _MOVED:
            text = re.sub(rf"(?<![\w/.])/{name}\b", f"{root}/{name}", text)
        return re.sub(rf"(?<![\w/.]){re.escape(self.workdir)}\b", root, text).encode()


def harbor_tasks(*, folder: str, limit: int | None = None, split: str = "train") -> list[dict[str, Any]]:
    """A row for each task folder below `folder`: its instruction as the prompt, `task_folder`. Raises UsageError."""
    root = Path(folder).expanduser()
    if split != "train" or not root.is_dir():
        what = f"folder {folder!r}" if split == "train" else f"split {split!r}; a folder of tasks is one split, train"
        raise UsageError(f"harbor: there is no {what}")
    found = sorted(path.parent for path in root.rglob("task.toml"))[:limit]
    if not found:
        raise UsageError(f"harbor: no task.toml below {folder!r}")
    tasks = [HarborTask.read(path) for path in found]
    return [
        {"prompt": [{"role": "user", "content": task.instruction}], "task_folder": str(task.folder)} for task in tasks
    ]


class HarborEnvironment:
    """One task in a sandbox session. The reward is what its tests write.

    `backend`, `options`: as for `open_sandbox`; None = the run's. `ignore_dockerfile`: run a task whose Dockerfile
    installs something in the sandbox as it is.
    """

    def __init__(
        self,
        *,
        backend: str | None = None,
        ignore_dockerfile: bool = False,
        timeout_s: float = 60.0,
        memory_mb: int = 2048,
        **options: Any,
    ) -> None:
        from plaudit_sandbox import Limits
        from plaudit_sandbox.opening import shared_sandbox

        self._box = shared_sandbox(backend, limits=Limits(timeout_s=timeout_s, memory_mb=memory_mb), **options)
        self._ignore = ignore_dockerfile
        self._held = AsyncExitStack()
        self._session: Any = None
        self._task: HarborTask | None = None

    async def reset(self, task_folder: str) -> None:
        """Begin a session with the task's environment files. Raises UsageError on a task that cannot run here."""
        await self.close()
        task = HarborTask.read(Path(task_folder))
        if task.installs and not self._ignore:
            raise UsageError(
                f"{task_folder}: its Dockerfile installs software, which a sandbox of ours does not build; make an "
                "image that has it (options = {image = …} with backend docker) and set ignore_dockerfile = true"
            )
        self._task = task
        self._session = await self._held.enter_async_context(self._box.session())
        await self._run("mkdir -p logs/verifier", task.files("environment"))

    async def bash(self, command: str) -> str:
        """Run a bash command in the task's working directory and return its output.

        Args:
            command: The bash command to run.
        """
        result = await self._run(command, {})
        return "\n".join(part for part in (result.text, result.error_text) if part.strip()) or f"[{result.status}]"

    async def get_reward(self) -> float:
        """Run the task's tests and read the reward that they write.

        Raises RewardFileError when they did not come to an end, or left no reward.
        """
        assert self._task is not None
        result = await self._run(
            "rm -f logs/verifier/reward.*; bash tests/test.sh", self._task.files("tests"), collect=REWARD_FILES,
            timeout_s=self._task.verifier_timeout_s,
        )  # fmt: skip
        if result.status not in ("ok", "failed"):
            raise RewardFileError(
                f"tests/test.sh was stopped ({result.status}: {result.detail}); its reward is not read"
            )
        return read_reward(result.files)

    async def close(self) -> None:
        """End the session."""
        self._session = None
        await self._held.aclose()

    async def _run(self, command: str, files: Mapping[str, bytes], **more: Any) -> Any:
        from plaudit_sandbox.protocol import Program

        script = f'export HARBOR_ROOT="$PWD"\n{command}\n'
        return await self._session.run(Program(command=["bash", "-c", script]), files=files, **more)


def read_reward(files: Mapping[str, bytes]) -> float:
    """The number in reward.json (its `reward`, else the mean of its numbers) or reward.txt; JSON wins.

    Raises RewardFileError when there is neither, or no number from 0 to 1 in it: a missing reward is never 0.
    """
    found = next((name for name in REWARD_FILES if name in files), None)
    if found is None:
        raise RewardFileError(f"tests/test.sh wrote neither {' nor '.join(REWARD_FILES)}")
    text = files[found].decode("utf-8", errors="replace").strip()
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, Mapping):
        numbers = [one for one in value.values() if _is_number(one)]
        value = value["reward"] if "reward" in value else sum(numbers) / len(numbers) if numbers else None
    if not _is_number(value) or not 0 <= value <= 1:
        raise RewardFileError(f"{found} holds {text[:60]!r}; expected a number from 0 to 1")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
