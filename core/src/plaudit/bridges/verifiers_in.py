"""Environments of verifiers as rows and a verifier, both named `verifiers` in a run file.

Either kind: a package whose `load_environment(**options)` gives an environment with a rubric (verifiers up to 0.3), or
one that exports a Taskset in `__all__` (0.4). What is judged is one completion: an environment of many turns runs in
verifiers itself.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.declare import verifier
from plaudit.types import Message, Verdict

from .named import frozen, thawed


def verifiers_rows(
    *, environment: str, options: Mapping[str, Any] | None = None, limit: int | None = None, split: str = "train"
) -> list[dict[str, Any]]:
    """The environment's tasks as rows, with `task_index`. Split "test": the evaluation set of a rubric environment."""
    return _loaded(environment, options).rows(split, limit)


@verifier(granularity="rollout", executor="loop", deterministic=False)
class VerifiersReward:
    """The environment's own rewards of a completion, weighted and summed; each is a metric under its name."""

    def __init__(self, environment: str, options: Mapping[str, Any] | None = None) -> None:
        self._environment = _loaded(environment, options)

    async def verify(
        self, completion: str, task_index: int, prompt: Any = "", completion_messages: Any = None, **columns: Any
    ) -> Verdict:
        """Judge one completion of the row `task_index`."""
        said = completion_messages if isinstance(completion_messages, list) else _said(completion)
        scores = await self._environment.scores(prompt, said, {**columns, "task_index": task_index})
        total = sum(weight * score for weight, score in scores.values())
        return Verdict(total, metrics={name: score for name, (_, score) in scores.items()})


class RubricEnvironment:
    """An environment of verifiers 0.3 or earlier: a dataset and a rubric of functions with weights."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment

    def rows(self, split: str, limit: int | None) -> list[dict[str, Any]]:
        """The dataset's rows, each with its place."""
        dataset = self._environment.get_dataset() if split == "train" else self._environment.get_eval_dataset()
        count = len(dataset) if limit is None else min(limit, len(dataset))
        return [{**dataset[index], "task_index": index} for index in range(count)]

    async def scores(
        self, prompt: Any, said: list[Message], columns: Mapping[str, Any]
    ) -> dict[str, tuple[float, float]]:
        """Name to (weight, score) of every function of the rubric."""
        rubric = self._environment.rubric
        state = {"prompt": prompt, "completion": said, "turn": 1, "timing": {}, **columns}
        offered = {"prompt": prompt, "completion": said, "state": state, "answer": "", "info": {}, **columns}
        offered |= {"parser": getattr(rubric, "parser", None)}
        found = {}
        for function, weight in rubric_functions(rubric):
            found[function.__name__] = (weight, float(await _called(function, offered)))
        return found


class TasksetEnvironment:
    """A taskset of verifiers 0.4: its tasks score a trace."""

    def __init__(self, taskset: Any) -> None:
        self._tasks = list(taskset.take(10_000) if not taskset.bounded else taskset)

    def rows(self, split: str, limit: int | None) -> list[dict[str, Any]]:
        """The tasks' fields; a task's system prompt and prompt are the row's messages."""
        if split != "train":
            raise UsageError(f"verifiers: a taskset has one split, train; {split!r} was asked for")
        return [self._row(task, index) for index, task in enumerate(self._tasks[:limit])]

    async def scores(
        self, prompt: Any, said: list[Message], columns: Mapping[str, Any]
    ) -> dict[str, tuple[float, float]]:
        """Name to (weight, score) of every reward of the task."""
        from verifiers import v1

        task = self._tasks[columns["task_index"]]
        asked = [v1.MessageNode(message=_message(v1, one), parent=None) for one in _asked(prompt)]
        wrote = [v1.MessageNode(message=_message(v1, one), parent=None, sampled=True) for one in said]
        nodes = [*asked, *wrote]
        for place, node in enumerate(nodes[1:]):
            node.parent = place
        data = v1.TraceTask(type=type(task).__name__, data=task.data)
        trace = v1.Trace(task=data, agent=v1.AgentInfo(config=v1.AgentConfig()), nodes=nodes)
        await task.score(trace)
        return {name: (one.weight, one.score) for name, one in trace.rewards.items() if one is not None}

    def _row(self, task: Any, index: int) -> dict[str, Any]:
        fields = task.data.model_dump()
        system = fields.pop("system_prompt", None)
        asked = _asked(fields.pop("prompt", None) or "")
        prompt = [{"role": "system", "content": system}, *asked] if system else asked
        plain = {name: value for name, value in fields.items() if value not in (None, [], {})}
        return {**plain, "prompt": prompt, "task_index": index}


def rubric_functions(rubric: Any) -> list[tuple[Any, float]]:
    """The functions of a rubric, or of a group of rubrics, with their weights; what weighs 0 only watches.

    Raises UsageError on a rubric whose functions cannot be called one by one.
    """
    if getattr(rubric, "rubrics", None):
        return [found for one in rubric.rubrics for found in rubric_functions(one)]
    for functions, weights in (("funcs", "weights"), ("reward_funcs", "reward_weights")):
        if hasattr(rubric, functions):
            pairs = zip(getattr(rubric, functions), getattr(rubric, weights), strict=True)
            return [(function, float(weight)) for function, weight in pairs if weight]
    raise UsageError(f"verifiers: the rubric {type(rubric).__name__} has no functions that can be called one by one")


def _loaded(environment: str, options: Mapping[str, Any] | None) -> RubricEnvironment | TasksetEnvironment:
    return _load(environment, frozen(options or {}))


@functools.cache
def _load(environment: str, options: Any) -> RubricEnvironment | TasksetEnvironment:
    given = thawed(options)
    try:
        module = importlib.import_module(environment.replace("-", "_"))
    except ImportError as error:
        raise UsageError(f"verifiers: environment {environment!r} cannot be imported: {error}") from error
    if hasattr(module, "load_environment"):
        return RubricEnvironment(module.load_environment(**given))
    try:
        from verifiers.v1 import load_taskset
        from verifiers.v1.utils.loaders import taskset_config_type
    except ImportError as error:
        raise UsageError(
            f"verifiers: {environment!r} has no load_environment, and tasksets need verifiers>=0.4: {error}"
        ) from error
    config = taskset_config_type(environment)(**{"id": environment, **given})
    return TasksetEnvironment(load_taskset(config))


async def _called(function: Any, offered: Mapping[str, Any]) -> Any:
    """Call a rubric function with those of the offered arguments that it names."""
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    told = function(**{name: value for name, value in offered.items() if takes_any or name in parameters})
    return await told if inspect.isawaitable(told) else told


def _said(completion: str) -> list[Message]:
    return [{"role": "assistant", "content": completion}]


def _asked(prompt: Any) -> list[Message]:
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)


def _message(v1: Any, message: Mapping[str, Any]) -> Any:
    kinds = {"system": v1.SystemMessage, "user": v1.UserMessage, "assistant": v1.AssistantMessage}
    return kinds[message["role"]](content=message.get("content") or "")
