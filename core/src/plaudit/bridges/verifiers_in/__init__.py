"""Environments of verifiers, named `verifiers` in a run file: its tasks as rows, its rewards, and its rollouts.

Either kind: a package whose `load_environment(**options)` gives an environment with a rubric (verifiers 0.1.14 to
0.3), or one that exports a Taskset in `__all__` (0.4). As a reward it judges one completion; as an environment it runs
its own rollout, of however many turns, and asks the model here for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.declare import verifier
from plaudit.types import Message, Verdict

from .loading import loaded


def verifiers_rows(
    *,
    environment: str,
    options: Mapping[str, Any] | None = None,
    env: Mapping[str, Any] | None = None,
    limit: int | None = None,
    split: str = "train",
    prompts: bool = True,
) -> list[dict[str, Any]]:
    """The environment's tasks as rows, with `task_index` and `task_split`.

    Split "test": the evaluation set of an environment with a rubric. `prompts = false`: rows without a prompt, for an
    environment whose rollout begins otherwise than its tasks say.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"verifiers: limit = {limit}; expected at least 1, or none for all")
    rows = loaded(environment, options, env).rows(split, limit)
    if not rows:
        raise UsageError(f"verifiers: the {split} set of {environment!r} is empty")
    return rows if prompts else [{name: row[name] for name in row if name != "prompt"} for row in rows]


def verifiers_environment(
    *, environment: str, options: Mapping[str, Any] | None = None, env: Mapping[str, Any] | None = None
) -> Any:
    """An instance that plays one rollout of the environment at a time.

    `options`: of `load_environment`, or of the taskset. `env`: fields of a taskset's EnvConfig, such as
    `agent = {harness = {id = "null"}, max_turns = 8}`. Raises UsageError.
    """
    return loaded(environment, options, env).episode_class()()


@verifier(granularity="rollout", executor="loop", deterministic=False)
class VerifiersReward:
    """The environment's own rewards of a completion, weighted and summed; each is a metric under its name."""

    def __init__(self, environment: str, options: Mapping[str, Any] | None = None) -> None:
        self._environment = loaded(environment, options)
        why = self._environment.needs_rollout
        if why is not None:
            raise UsageError(
                f'verifiers: {environment!r} cannot be a reward, {why}; name it as [[environment]] name = "verifiers"'
            )

    async def verify(
        self,
        completion: str,
        task_index: int,
        task_split: str = "train",
        prompt: Any = "",
        completion_messages: Any = None,
    ) -> Verdict:
        """Judge one completion of the row `task_index`. What a reward function of it raises is raised."""
        said = completion_messages if isinstance(completion_messages, list) else _said(completion)
        return await self._environment.verdict(task_index, task_split, prompt, said)


def _said(completion: str) -> list[Message]:
    return [{"role": "assistant", "content": completion}]
