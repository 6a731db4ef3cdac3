"""Tasks of verifiers 0.4: as rows, and their rewards of a trace."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from plaudit.types import Message, Verdict

from ..episodes import EpisodeError

_KEPT = ("id", "name", "description")
"""Fields that every task has and that say something of it; the others of TaskData are how it is run."""


def row_of(task: Any, index: int) -> dict[str, Any]:
    """The fields of a task's own class as columns; its system prompt and prompt as messages."""
    from verifiers import v1

    fields = task.data.model_dump()
    system, prompt = fields.get("system_prompt"), fields.get("prompt")
    common = set(v1.TaskData.model_fields) - {name for name in _KEPT if fields.get(name)}
    columns = {name: value for name, value in fields.items() if name not in common}
    columns |= {"task_index": index, "task_split": "train"}
    if prompt is None:
        return columns
    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [_plain(one) for one in prompt]
    return {**columns, "prompt": [{"role": "system", "content": system}, *asked] if system else asked}


def missing_rewards(task: Any) -> str | None:
    """Why not all rewards of a task can be had of a trace alone; None where they can."""
    functions = [*task.hooks("reward"), *(judge.score for judge in task.plugged_judges())]
    needing = [one.__name__ for one in functions if _needs_runtime(one)]
    if needing:
        return f"its reward {needing[0]} looks at what the rollout left behind"
    return None if functions else "its tasks have no reward of their own"


def trace_of(task: Any, prompt: Any, said: list[Message]) -> Any:
    """A trace of one completion: what was asked, then what the model said."""
    from verifiers import v1

    asked = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    nodes = [
        *(v1.MessageNode(message=_message(v1, one), parent=None) for one in asked),
        *(v1.MessageNode(message=_message(v1, one), parent=None, sampled=True) for one in said),
    ]
    for place, node in enumerate(nodes[1:]):
        node.parent = place
    data = v1.TraceTask(type=type(task).__name__, data=task.data)
    return v1.Trace(task=data, agent=v1.AgentInfo(config=v1.AgentConfig()), nodes=nodes)


def judged(trace: Any) -> Verdict:
    """The verdict of a scored trace. Raises EpisodeError on a reward that is missing or no finite number."""
    for name, reward in trace.rewards.items():
        if reward is None or not math.isfinite(reward.value):
            given = "nothing" if reward is None else reward.score
            raise EpisodeError(f"reward {name} gave {given}; expected a finite number")
    if not trace.rewards:
        raise EpisodeError("the episode gave no reward")
    metrics = {name: one for name, one in trace.metrics.items() if one is not None}
    return Verdict(trace.reward, metrics=metrics | {name: one.score for name, one in trace.rewards.items()})


def _needs_runtime(function: Any) -> bool:
    parameter = inspect.signature(function).parameters.get("runtime")
    return parameter is not None and parameter.default is parameter.empty


def _plain(message: Mapping[str, Any]) -> Message:
    return {name: value for name, value in message.items() if value is not None}


def _message(v1: Any, message: Mapping[str, Any]) -> Any:
    kinds = {"system": v1.SystemMessage, "user": v1.UserMessage, "assistant": v1.AssistantMessage}
    return kinds[message["role"]](content=message.get("content") or "")
