"""The rewards of a run: loaded by name with their options, and checked against the columns of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.component import missing_columns_message
from plaudit.plugins.loading import load_reward
from plaudit.run.schema import RewardSection, RunFile
from plaudit.scoring.spec import RewardSpec, reward_specs

_OWN_FIELDS = ("name", "options", "when")


def load_rewards(run: RunFile) -> list[RewardSpec]:
    """The specs of all rewards, a task's own limited to its rows. Raises what `load_reward` raises.

    A name that several tasks use becomes `task/name`, so that each has metrics of its own. `after` in a task names a
    reward of the task first, with or without the task's name before it.
    """
    sections = [(section, None) for section in run.rewards]
    sections += [(section, task.name) for task in run.tasks for section in task.rewards]  # type: ignore[misc]
    loaded = [(_spec(section, task), task) for section, task in sections]
    names = [spec.name for spec, _ in loaded]

    def full(name: str, task: str | None) -> str:
        return f"{task}/{name}" if task and names.count(name) > 1 else name

    def renamed(after: Any, task: str | None) -> Any:
        own = {spec.name for spec, one in loaded if task and one == task}
        called = {given: full(name, task) for name in own for given in (name, f"{task}/{name}")}
        if isinstance(after, Mapping):
            return {called.get(name, name): least for name, least in after.items()}
        return called.get(after, after)

    return reward_specs(
        [replace(spec, name=full(spec.name, task), after=renamed(spec.after, task)) for spec, task in loaded]
    )


def _spec(section: RewardSection, task: str | None) -> RewardSpec:
    reward = load_reward(section.name, options=section.options, reference_column=section.reference_column)
    asked = {field.name: getattr(section, field.name) for field in fields(section) if field.name not in _OWN_FIELDS}
    given = {name: value for name, value in asked.items() if value is not None}
    when = {"task": task} if task else section.when or None
    return RewardSpec(reward=reward, name=reward.__name__, when=when, **given)


def check_columns(specs: Sequence[RewardSpec], rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError when a reward needs a column that its rows lack, or when no row would reach it."""
    columns = list(rows[0])
    for spec in specs:
        seen = rows
        for column, wanted in (spec.when or {}).items():
            if column not in columns:
                raise UsageError(
                    f"reward '{spec.name}': when names the column '{column}' (columns: {', '.join(columns)})"
                )
            seen = [row for row in seen if row[column] == wanted]
        if not seen:
            raise UsageError(f"reward '{spec.name}' would never run: {_values(spec.when or {}, rows)}")
        _check_component(spec, seen)
    check_every_task(specs, rows)


def _check_component(spec: RewardSpec, rows: Sequence[Mapping[str, Any]]) -> None:
    present = {name: None for name in rows[0] if any(row[name] is not None for row in rows)}
    component = spec.reward.component
    missing = component.required_columns - present.keys()
    if missing:
        raise UsageError(missing_columns_message(component, missing, present))
    needs_reference = component.kind == "verifier" and "reference" in component.signature.required
    if needs_reference and spec.reward.find_reference_column(present) is None:
        raise UsageError(missing_columns_message(component, {"reference"}, present))


def check_every_task(specs: Sequence[RewardSpec], rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError when no reward could score the rows of a task: each would be left out, without a word."""
    for task in dict.fromkeys(row.get("task") for row in rows):
        own = [row for row in rows if row.get("task") == task]
        reaching = [spec for spec in specs if any(_runs_on(spec, row) for row in own)]
        whose = "any row" if task is None else f"task '{task}'"
        if not reaching:
            raise UsageError(f"no reward runs on {whose}; add one, or a `when` that lets one through")
        if not any(_can_score(spec, [row for row in own if _runs_on(spec, row)]) for spec in reaching):
            names = ", ".join(spec.name for spec in reaching)
            raise UsageError(f"no reward can score {whose}: {names} would find no reference in its rows")


def _runs_on(spec: RewardSpec, row: Mapping[str, Any]) -> bool:
    return all(row.get(column) == wanted for column, wanted in (spec.when or {}).items())


def _can_score(spec: RewardSpec, rows: Sequence[Mapping[str, Any]]) -> bool:
    component = spec.reward.component
    if component.kind != "verifier" or "reference" not in component.signature.required:
        return True
    return any((column := spec.reward.find_reference_column(row)) and row[column] is not None for row in rows)


def _values(when: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    column, wanted = next(iter(when.items()))
    values = list(dict.fromkeys(str(row[column]) for row in rows))[:8]
    return f"no row has {column} = {wanted!r} (values: {', '.join(values)})"
