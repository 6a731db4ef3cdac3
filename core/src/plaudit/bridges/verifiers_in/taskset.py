"""Environments of verifiers 0.4 (its v1 interface): a taskset, whose tasks score a trace, and a harness to play them.

Their own episode runs, in their runtime and through their interception, with a model's address that asks the policy
here. Where the configuration names no runtime, the harness runs as a process on this machine, unless it executes what
the model writes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.importing import describe_error
from plaudit.types import Message, Verdict

from ..episodes import EpisodeError, Policy
from ..model_endpoint import HeldOpen, ModelEndpoint
from .first_request import tools_asked_for
from .tasks import judged, missing_rewards, row_of, trace_of

UNBOUNDED_ROWS = 10_000
"""Rows of a taskset that never ends, where no limit is given."""


class TasksetEnvironment:
    """A taskset of verifiers 0.4. `env`: fields of its EnvConfig."""

    def __init__(self, name: str, taskset: Any, env: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.name = name
        self._bounded = bool(taskset.bounded)
        self._more: Iterator[Any] = iter(taskset)
        self._tasks: list[Any] = []
        self._config = {**env, "taskset": {"id": name, **options}}

    @classmethod
    def load(cls, name: str, options: Mapping[str, Any], env: Mapping[str, Any]) -> TasksetEnvironment:
        """The taskset of a package. Raises UsageError on options that it does not take."""
        from verifiers.v1 import load_taskset
        from verifiers.v1.utils.loaders import taskset_config_type

        try:
            config = taskset_config_type(name)(**{"id": name, **options})
            return cls(name, load_taskset(config), env, options)
        except Exception as error:
            raise UsageError(f"verifiers: taskset {name!r} cannot be made: {describe_error(error)}") from error

    @property
    def needs_rollout(self) -> str | None:
        """Why one completion by itself cannot be judged; None where it can."""
        first = self.task(0)
        if first.data.prompt is None:
            return "its tasks have no prompt, a user begins"
        return missing_rewards(first)

    def task(self, index: int) -> Any:
        """The task of a row. Raises UsageError when there is none."""
        if len(self._tasks) <= index:
            self._tasks.extend(itertools.islice(self._more, index + 1 - len(self._tasks)))
        if not 0 <= index < len(self._tasks):
            raise UsageError(f"verifiers: {self.name} has no task {index!r}; there are {len(self._tasks)}")
        return self._tasks[index]

    def rows(self, split: str, limit: int | None) -> list[dict[str, Any]]:
        """The tasks' own fields; a task's system prompt and prompt are the row's messages."""
        if split != "train":
            raise UsageError(f"verifiers: a taskset has one split, train; {split!r} was asked for")
        count = limit if limit is not None or self._bounded else UNBOUNDED_ROWS
        self._tasks.extend(itertools.islice(self._more, None if count is None else max(0, count - len(self._tasks))))
        return [row_of(task, index) for index, task in enumerate(self._tasks[:count])]

    async def verdict(self, index: int, split: str, prompt: Any, said: list[Message]) -> Verdict:
        """The task's verdict on one completion."""
        task = self.task(index)
        trace = trace_of(task, prompt, said)
        await task.score(trace)
        return judged(trace)

    async def play(self, policy: Policy, index: int) -> Verdict:
        """One episode of a task, and what it scored. Raises EpisodeError when it broke down, or gave no score."""
        from verifiers import v1

        traces: list[Any] = []

        def over() -> None:
            for trace in traces:
                trace.stop("rollout_over")

        address, endpoint = await self._served.take()
        try:
            async with endpoint.seated(policy, over) as path:
                client = v1.EvalClientConfig(base_url=address + path, api_key_var="PLAUDIT_NO_API_KEY")
                context = v1.ModelContext(model="policy", client=client)
                episode = await self._environment.run_episode(self.task(index), context, on_trace=traces.append)
        finally:
            await self._served.give_back()
        return _scored(episode, client.base_url)

    @functools.cache  # noqa: B019 - an environment lives as long as the process
    def episode_class(self) -> type:
        """Its environment class here; its tools are those that the first task's first request offers."""
        from .taskset_episode import TasksetEpisode

        self._check_scores()
        made = type(self.name, (TasksetEpisode,), {"loaded": self})
        made.tool_schemas = tools_asked_for(self)  # type: ignore[attr-defined]
        return made

    async def hold(self) -> None:
        """Keep what episodes share open, until `let_go`."""
        await self._served.take()

    async def let_go(self) -> None:
        """See `hold`."""
        await self._served.give_back()

    @functools.cached_property
    def _served(self) -> HeldOpen:
        @asynccontextmanager
        async def opened() -> AsyncIterator[tuple[str, ModelEndpoint]]:
            endpoint = ModelEndpoint()
            async with endpoint.serving() as address, self._environment.serving():
                yield address, endpoint

        return HeldOpen(opened)

    @functools.cached_property
    def _environment(self) -> Any:
        from .configuring import configured

        return configured(self.name, self._config)

    def _check_scores(self) -> None:
        """Raise UsageError when nothing gives a reward."""
        from verifiers import v1

        task = self.task(0)
        finalizes = type(self._environment).finalize is not v1.Env.finalize
        if not (task.hooks("reward") or task.plugged_judges() or finalizes):
            raise UsageError(f"verifiers: the tasks of {self.name} have no reward, so every reward would be 0")


def _scored(episode: Any, address: str) -> Verdict:
    """The verdict on the trace of the policy's seat."""
    mine = [one for one in episode.traces if one.agent.config.client.base_url == address]
    errors = [*episode.errors, *(error for one in episode.traces for error in one.errors if not one.ok)]
    if errors or not episode.ok:
        said = f"{errors[0].type}: {errors[0].message}" if errors else "it is not ok"
        raise EpisodeError(f"the episode failed: {said}")
    if len(mine) != 1:
        raise EpisodeError(f"the episode has {len(mine)} dialogues of the model; a rollout is one")
    return judged(mine[0])
