"""Tools and environments of a run file: loaded by name, checked, and put to the rows that they serve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.data import LoadedData, Record
from plaudit.run.schema import EnvironmentSection, RunFile

OWN_ROWS = 256
"""Rows of a task whose environment makes its tasks up: enough for one generation batch of most runs."""
_OWN_FIELDS = ("name", "route", "options")


def has_environments(run: RunFile) -> bool:
    """Whether some rows have an environment."""
    return bool(run.environments) or any(task.environment is not None for task in run.tasks)


def plan_run_agents(run: RunFile) -> Any:
    """The Agents of a run, None where it has neither tools nor environments. Raises UsageError or PluginError."""
    if not (run.tools or has_environments(run)):
        return None
    from plaudit.grpo.generating.agents import plan_agents

    return plan_agents([_tool(reference) for reference in run.tools], _factories(run))


def with_agents(loaded: Mapping[str, LoadedData], run: RunFile) -> dict[str, LoadedData]:
    """The rows as agents need them: text prompts as conversations, and each with the name of its environment.

    Where an environment makes its tasks up, empty rows are put in.
    """
    parts = {name: LoadedData(_conversing(data.train), _conversing(data.heldout)) for name, data in loaded.items()}
    empty = LoadedData([{"prompt": [{"role": "user", "content": ""}]} for _ in range(OWN_ROWS)], [])
    if run.data is None and not run.tasks:
        return {"": empty}
    if any(task.environment is not None for task in run.tasks):
        parts = {task.name: _routed(parts.get(task.name, empty), task.name) for task in run.tasks}
        if any(task.data is None and task.ratio is None for task in run.tasks) and len(run.tasks) > 1:
            raise UsageError("a [[task]] without [task.data] has no rows to count: give every task a ratio")
    return parts


def check_agents(
    run: RunFile, agents: Any, train: Sequence[Record], heldout: Sequence[Record], config: Any, processing_class: Any
) -> None:
    """Raise UsageError when rows and environments do not fit, or the chat template cannot carry the tools."""
    if run.data is None and all(task.data is None for task in run.tasks) and config.max_steps <= 0:
        raise UsageError("the environment makes its tasks up, so nothing says how long to train: set config.max_steps")
    agents.datasets(list(train), list(heldout) or None, config)
    agents.chats(processing_class, config.chat_template_kwargs or {})


def _factories(run: RunFile) -> Any:
    """What GRPOTrainer takes as environment_factory."""
    if any(task.environment is not None for task in run.tasks):
        return {task.name: None if task.environment is None else _spec(task.environment) for task in run.tasks}
    if not run.environments:
        return None
    if len(run.environments) == 1 and run.environments[0].route is None:
        return _spec(run.environments[0])
    routes = [section.route or section.name for section in run.environments]
    twice = next((route for route in routes if routes.count(route) > 1), None)
    if twice is not None:
        raise UsageError(f"two [[environment]] are reached by environment = '{twice}'; give them a route each")
    return {route: _spec(section) for route, section in zip(routes, run.environments, strict=True)}


def _spec(section: EnvironmentSection) -> Any:
    from plaudit.plugins.loading import load_environment
    from plaudit.rollout.agent import EnvironmentSpec

    asked = {one.name: getattr(section, one.name) for one in fields(section) if one.name not in _OWN_FIELDS}
    given = {name: value for name, value in asked.items() if value is not None}
    return EnvironmentSpec(load_environment(section.name, options=section.options), **given)


def _tool(reference: str) -> Any:
    if ":" not in reference:
        raise UsageError(
            f"tools: '{reference}' names no function; expected package.module:function or ./file.py:function"
        )
    from plaudit.plugins.resolve import resolve

    return resolve(reference, ("tool",))[0]


def _conversing(rows: Sequence[Record]) -> list[Record]:
    return [
        {**row, "prompt": [{"role": "user", "content": row["prompt"]}]} if isinstance(row["prompt"], str) else row
        for row in rows
    ]


def _routed(data: LoadedData, task: str) -> LoadedData:
    """The rows of a task, which lead to its environment."""
    for row in (*data.train, *data.heldout):
        if "environment" in row:
            raise UsageError(
                f"task '{task}': its data has a column 'environment' of its own; rename it with columns, or use "
                "[[environment]] with a route each"
            )
    return LoadedData(*([{**row, "environment": task} for row in rows] for rows in (data.train, data.heldout)))
