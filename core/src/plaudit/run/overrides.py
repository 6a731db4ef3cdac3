"""`--set a.b=c`: changes to the tables of a run file before they are checked."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterable
from typing import Any

from plaudit.errors import UsageError


def apply_overrides(table: dict[str, Any], assignments: Iterable[str]) -> dict[str, Any]:
    """A copy of `table` with each `key.path=value` applied in order.

    Values are TOML; text that is not TOML is a string, so `config.loss_type=grpo` needs no quotes. A number in the
    path is a place in a list: `reward.0.weight=2`. Raises UsageError naming the assignment.
    """
    changed = copy.deepcopy(table)
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = path.strip().split(".")
        if not equals or not all(keys):
            raise UsageError(f"--set {assignment}: expected key=value, for example --set config.max_steps=100")
        _assign(changed, keys, _toml_value(text.strip()), assignment)
    return changed


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _assign(table: dict[str, Any], keys: list[str], value: Any, assignment: str) -> None:
    place: Any = table
    for key in keys[:-1]:
        place = place.setdefault(key, {}) if isinstance(place, dict) else place[_index(place, key, assignment)]
    last = keys[-1]
    if isinstance(place, dict):
        place[last] = value
    else:
        place[_index(place, last, assignment)] = value


def _index(place: Any, key: str, assignment: str) -> int:
    if not isinstance(place, list):
        raise UsageError(f"--set {assignment}: '{key}' cannot be set inside the value {place!r}")
    if not key.isdecimal() or int(key) >= len(place):
        raise UsageError(f"--set {assignment}: '{key}' is not a place in that list; it holds 0 to {len(place) - 1}")
    return int(key)
