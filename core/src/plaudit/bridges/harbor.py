"""Harbor task folders (harbor 0.25, schema 1.x) as rows and an environment, named `harbor`, in our sandboxes.

    [data]
    name = "harbor"
    options = {folder = "tasks"}

    [[environment]]
    name = "harbor"
    options = {backend = "docker"}

A task folder holds task.toml, instruction.md, environment/ and tests/test.sh, which writes a reward to
/logs/verifier/reward.txt or reward.json. A session has no root of its own: the task's absolute paths /tests, /logs,
/solution and its working directory are read as folders of the session, in its scripts and in the model's commands.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from plaudit.errors import PlauditError, UsageError

from .harbor_task import HarborTask, is_number

REWARD_FILES = ("logs/verifier/reward.json", "logs/verifier/reward.txt")


class RewardFileError(PlauditError):
    """A task's tests left no reward that can be read."""


def harbor_tasks(*, folder: str, limit: int | None = None, split: str = "train") -> list[dict[str, Any]]:
    """A row for each task folder below `folder`: its instruction as the prompt, `task_folder`. Raises UsageError."""
    root = Path(folder).expanduser()
    if split != "train" or not root.is_dir():
        what = f"folder {folder!r}" if split == "train" else f"split {split!r}; a folder of tasks is one split, train"
        raise UsageError(f"harbor: there is no {what}")
    if limit is not None and limit < 1:
        raise UsageError(f"harbor: limit = {limit}; expected at least 1, or none for all")
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
        if task.needs is not None and not self._ignore:
            raise UsageError(
                f"{task_folder}: {task.needs}, which a sandbox of ours does not build; name an image that has it "
                "(options = {image = …} with backend docker) and set ignore_dockerfile = true"
            )
        self._task = task
        self._session = await self._held.enter_async_context(self._box.session())
        await self._run("mkdir -p logs/verifier", task.files("environment"))

    async def bash(self, command: str) -> str:
        """Run a bash command in the task's working directory and return its output.

        Args:
            command: The bash command to run.
        """
        assert self._task is not None
        result = await self._run(self._task.moved(command, shell=True), {})
        return "\n".join(part for part in (result.text, result.error_text) if part.strip()) or f"[{result.status}]"

    async def get_reward(self) -> float:
        """Run the task's tests and read the reward that they write.

        Raises RewardFileError when they did not come to an end, or left no reward.
        """
        assert self._task is not None
        result = await self._run(
            f"{_exports(self._task.verifier_env)}rm -f logs/verifier/reward.*; bash tests/test.sh",
            self._task.files("tests"), collect=REWARD_FILES, timeout_s=self._task.verifier_timeout_s,
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

        assert self._task is not None
        script = f'export HARBOR_ROOT="$PWD"\n{_exports(self._task.env)}{command}\n'
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
        numbers = [one for one in value.values() if is_number(one)]
        value = value["reward"] if "reward" in value else sum(numbers) / len(numbers) if numbers else None
    if not is_number(value) or not 0 <= value <= 1:
        raise RewardFileError(f"{found} holds {text[:60]!r}; expected a number from 0 to 1")
    return float(value)


def _exports(env: Mapping[str, str]) -> str:
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in env.items())
