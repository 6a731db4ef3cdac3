"""The arguments of one call: columns as lists, filtered by the signature, every mutable value a copy of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.component import REFERENCE_COLUMNS, REWARD_CONTRACT, Reward, missing_columns_message
from plaudit.types import Rollout, Row

NOT_PASSED = frozenset({"prompt", "completion", "completion_ids"})
"""Columns that TRL does not hand to rewards either: the rollout itself stands under these names."""
_ATOMS = frozenset({str, int, float, bool, bytes, type(None), complex})


def copied(value: Any) -> Any:
    """A deep copy, quick on JSON-like data; a value that cannot be copied is passed as it is."""
    kind = type(value)
    if kind in _ATOMS:
        return value
    try:
        if kind is list:
            return [item if type(item) in _ATOMS else copied(item) for item in value]
        if kind is dict:
            return {key: item if type(item) in _ATOMS else copied(item) for key, item in value.items()}
        return copy.deepcopy(value)
    except RecursionError:
        return copy.deepcopy(value)
    except Exception:
        return value


def column_names(rows: Iterable[Row]) -> frozenset[str]:
    """Every column that some row has, as rewards see them. Raises UsageError on one that would hide an argument."""
    seen: dict[int, Mapping[str, Any]] = {id(row.columns): row.columns for row in rows}
    names = frozenset(name for columns in seen.values() for name in columns) - NOT_PASSED
    hiding = sorted(names & REWARD_CONTRACT)
    if hiding:
        listed = ", ".join(f"'{name}'" for name in hiding)
        raise UsageError(f"the dataset column {listed} would hide an argument that every reward is given; rename it")
    return names


def check_columns(name: str, reward: Reward, columns: frozenset[str]) -> None:
    """Raises UsageError when a reward needs a column that no row has, before anything is generated."""
    component = reward.component
    missing = component.required_columns - columns
    if reward.reference_column is not None:
        missing = missing | ({reward.reference_column} - columns)
    elif component.kind == "verifier" and "reference" in component.signature.required:
        missing = missing if columns & set(REFERENCE_COLUMNS) else missing | {"reference"}
    if missing:
        raise UsageError(f"reward '{name}': {missing_columns_message(component, missing, dict.fromkeys(columns))}")


def taken_columns(reward: Reward, columns: frozenset[str]) -> tuple[str, ...]:
    """Those columns that a component looks at, sorted: by its signature, and where a verifier finds its reference."""
    component = reward.component
    if component.signature.takes_any:
        return tuple(sorted(columns - component.option_names))
    wanted = component.signature.names
    if component.kind == "verifier":
        wanted = wanted | ({reward.reference_column} if reward.reference_column else frozenset(REFERENCE_COLUMNS))
    return tuple(sorted(columns & wanted))


class Inputs:
    """How the arguments of one reward's calls are made; what its signature takes is worked out once a session."""

    __slots__ = ("_any", "_component", "_environments", "_fields", "_state", "columns", "logging")

    def __init__(self, reward: Reward, columns: frozenset[str]) -> None:
        component = reward.component
        names, takes_any = component.signature.names, component.signature.takes_any
        self.columns = taken_columns(reward, columns)
        self.logging = tuple(name for name in ("log_extra", "log_metric") if takes_any or name in names)
        self._component = component
        self._any = takes_any
        self._fields = tuple((name, of) for name, of in _OF_ROLLOUT.items() if takes_any or name in names)
        self._state = takes_any or "trainer_state" in names
        self._environments = "environments" in names

    def row(self, rollout: Rollout) -> dict[str, Any]:
        """One row as a verifier's `judge` takes it: its columns, and what else its signature names."""
        values, names = rollout.row.columns, self._component.signature.names
        row = {name: copied(values.get(name)) for name in self.columns}
        if "prompt" in names:
            row["prompt"] = copied(rollout.row.prompt)
        if "completion_ids" in names:
            row["completion_ids"] = list(rollout.completion_ids)
        return row

    def arguments(self, rollouts: Sequence[Rollout], trainer_state: Any) -> dict[str, Any]:
        """The keyword arguments of a reward function over `rollouts`, but for the logging functions."""
        arguments: dict[str, Any] = {
            name: [copied(rollout.row.columns.get(name)) for rollout in rollouts] for name in self.columns
        }
        for name, of in self._fields:
            arguments[name] = [of(rollout) for rollout in rollouts]
        if self._state:
            arguments["trainer_state"] = state_copy(trainer_state)
        if self._environments or (self._any and any(rollout.environment is not None for rollout in rollouts)):
            arguments["environments"] = [rollout.environment for rollout in rollouts]
        return arguments

    def identity(self, rollout: Rollout) -> list[Any]:
        """All that a deterministic reward's value depends on."""
        names = self._component.signature.names
        parts: list[Any] = [rollout.completion, [rollout.row.columns.get(name) for name in self.columns]]
        if self._any or "prompt" in names or "prompts" in names:
            parts.append(rollout.row.prompt)
        if self._any or "completion_ids" in names:
            parts.append(rollout.completion_ids)
        return parts


def state_copy(state: Any) -> Any:
    """A copy of a trainer state whose log history is a list of its own."""
    if state is None:
        return None
    try:
        twin = copy.copy(state)
    except Exception:
        return state
    history = getattr(twin, "log_history", None)
    if isinstance(history, list):
        twin.log_history = list(history)
    return twin


def portable_state(state: Any) -> Any:
    """A trainer state as a SimpleNamespace, so that a worker need not import the trainer's library to read it."""
    if state is None or isinstance(state, (SimpleNamespace, dict)):
        return state
    return SimpleNamespace(**{name: value for name, value in vars(state).items() if not name.startswith("_")})


_OF_ROLLOUT: dict[str, Any] = {
    "prompts": lambda rollout: copied(rollout.row.prompt),
    "completions": lambda rollout: copied(rollout.completion),
    "completion_ids": lambda rollout: list(rollout.completion_ids),
}
