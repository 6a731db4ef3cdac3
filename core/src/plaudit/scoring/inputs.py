"""The arguments of one call: columns as lists, filtered by the signature, every mutable value a copy of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from plaudit.errors import UsageError
from plaudit.plugins.component import REFERENCE_COLUMNS, REWARD_CONTRACT, Component, Reward, missing_columns_message
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


def verifier_row(component: Component, rollout: Rollout, columns: Sequence[str]) -> dict[str, Any]:
    """One row as a verifier's `judge` takes it: its columns, and prompt or token ids where the signature names them."""
    values = rollout.row.columns
    row = {name: copied(values.get(name)) for name in columns}
    names = component.signature.names
    if "prompt" in names:
        row["prompt"] = copied(rollout.row.prompt)
    if "completion_ids" in names:
        row["completion_ids"] = list(rollout.completion_ids)
    return row


def reward_arguments(
    component: Component, rollouts: Sequence[Rollout], columns: Sequence[str], trainer_state: Any
) -> dict[str, Any]:
    """The keyword arguments of a reward function over `rollouts`, one list element each; logging functions left out."""
    signature = component.signature
    arguments: dict[str, Any] = {
        name: [copied(rollout.row.columns.get(name)) for rollout in rollouts] for name in columns
    }
    for name, value_of in _OF_ROLLOUT.items():
        if signature.takes_any or name in signature.names:
            arguments[name] = [value_of(rollout) for rollout in rollouts]
    if signature.takes_any or "trainer_state" in signature.names:
        arguments["trainer_state"] = state_copy(trainer_state)
    if "environments" in signature.names or (signature.takes_any and any(r.environment is not None for r in rollouts)):
        arguments["environments"] = [rollout.environment for rollout in rollouts]
    return arguments


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
