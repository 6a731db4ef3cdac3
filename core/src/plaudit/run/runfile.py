"""Read a run file, check what can be checked without loading anything, and write it back as resolved."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.overrides import apply_overrides
from plaudit.run.parsing import build, join
from plaudit.run.schema import DataSection, RewardSection, RunFile
from plaudit.run.stages import check_stages
from plaudit.run.streaming import check_streaming
from plaudit.run.typecheck import closest, show

_PLACES = {
    "output_dir": "output_dir",
    "model_init_kwargs": "model.model_init_kwargs",
    "reward_weights": "reward.N.weight",
    "task_max_completion_length": "task.N.max_completion_length",
}
"""Fields of `[config]` that a run file says elsewhere."""


def load_run_file(path: str | Path, assignments: Iterable[str] = ()) -> RunFile:
    """The run that the TOML file at `path` describes, with `--set` assignments applied. Raises UsageError."""
    source = Path(path)
    if not source.is_file():
        here = [str(other) for other in source.parent.glob("*.toml")] if source.parent.is_dir() else []
        raise UsageError(f"no run file '{path}'{closest(str(path), here) or '; expected a TOML file'}")
    try:
        table = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    return parse_run(apply_overrides(table, assignments))


def parse_run(table: Mapping[str, Any]) -> RunFile:
    """A run from its tables: types and keys checked, then what the sections say of each other. Raises UsageError."""
    run = build(RunFile, table)
    if run.data is not None and run.tasks:
        raise UsageError("a run needs either [data] or [[task]] with [task.data], not both")
    if run.data is None and not run.tasks and len(run.environments) != 1:
        raise UsageError(
            "a run needs [data], or [[task]] with [task.data], or one [[environment]] that makes its tasks up by itself"
        )
    if run.data is not None:
        _check_data(run.data, "data")
    _check_tasks(run)
    for index, reward in enumerate(run.rewards):
        _check_reward(reward, f"reward.{index}")
    check_stages(run)
    check_streaming(run)
    _check_watched(run)
    if run.task_temperature is not None and (run.task_temperature <= 0 or any(task.ratio for task in run.tasks)):
        raise UsageError(f"task_temperature = {run.task_temperature}: expected above 0, and no ratio on a [[task]]")
    if run.eval.temperature < 0:
        raise UsageError(f"eval.temperature = {run.eval.temperature}: expected 0 (greedy) or more")
    for key, place in _PLACES.items():
        if key in run.config or any(key in stage.config for stage in run.stages):
            raise UsageError(f"config.{key}: say it as {place} instead, so that it stands in one place")
    return run


def _check_watched(run: RunFile) -> None:
    if run.canary is not None:
        _check_data(run.canary.data, "canary.data")
    for name, section in (("canary", run.canary), ("samples", run.samples)):
        if section is not None and section.every < 1:
            raise UsageError(f"{name}.every = {section.every}: expected a number of optimizer steps, at least 1")
    if run.samples is not None and run.samples.rows < 1:
        raise UsageError(f"samples.rows = {run.samples.rows}: expected at least 1")


def resolved_table(section: Any) -> dict[str, Any]:
    """The tables of a run with its defaults filled in; `parse_run` of them gives an equal run."""
    table: dict[str, Any] = {}
    for field in dataclasses.fields(section):
        value = getattr(section, field.name)
        if value is not None and (value not in ((), {}) or field.default is None):
            table[field.metadata.get("key", field.name)] = _plain(value)
    return table


def write_run_file(run: RunFile, path: Path) -> None:
    """Write the resolved run as TOML."""
    import tomli_w

    path.write_text(tomli_w.dumps(resolved_table(run)), encoding="utf-8")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return resolved_table(value)
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _check_tasks(run: RunFile) -> None:
    names = [task.name for task in run.tasks]
    for index, task in enumerate(run.tasks):
        where = f"task.{index}"
        if not task.name.strip():
            raise UsageError(
                f"{where}.name = {show(task.name)}: expected a name, which metrics and the column task carry"
            )
        if names.count(task.name) > 1:
            raise UsageError(f"{where}.name = {show(task.name)}: two tasks have this name; give each its own")
        if task.environment is not None and run.environments:
            raise UsageError(f"{where}.environment: beside [[environment]]; give each task its own, or all rows these")
        if task.data is None and task.environment is None:
            raise UsageError(f"{where}.data is missing: expected a table, [{where}.data]")
        if not (task.rewards or run.rewards or task.environment or run.environments):
            raise UsageError(
                f"task '{task.name}' has no reward: add [[task.reward]] name = …, or a [[reward]] for all tasks"
            )
        if task.ratio is not None and task.ratio <= 0:
            raise UsageError(f"{where}.ratio = {task.ratio}: expected a number above 0")
        if task.data is not None:
            _check_data(task.data, join(where, "data"))
        for place, reward in enumerate(task.rewards):
            _check_reward(reward, f"{where}.reward.{place}")
            if reward.when:
                raise UsageError(f"{where}.reward.{place}.when: a task's reward already runs on its own rows only")
    if len({task.ratio is None for task in run.tasks}) > 1:
        raise UsageError("give every [[task]] a ratio, or none: some have one and some have not")
    if not run.tasks and not run.rewards and not run.environments:
        raise UsageError("a run needs a reward: add [[reward]] name = …; `plaudit plugins` lists what is installed")


def _check_data(data: DataSection, where: str) -> None:
    if (data.path is None) == (data.name is None):
        what = "both path and name" if data.path else "neither path nor name"
        raise UsageError(f"[{where}] has {what}: expected path = a file, or name = a plugin's or hub dataset")
    for key in ("max_rows", "max_prompt_tokens", "eval_size"):
        value = getattr(data, key)
        if value is not None and value < 1:
            raise UsageError(f"{where}.{key} = {value}: expected at least 1")
    if data.eval_path and data.eval_split:
        raise UsageError(f"[{where}] has both eval_path and eval_split: expected one place for the held-out rows")
    if data.answer_pattern is not None:
        _check_pattern(data.answer_pattern, f"{where}.answer_pattern")


def _check_pattern(pattern: str, path: str) -> None:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise UsageError(f"{path} = {show(pattern)} is not a regular expression: {error}") from None
    if groups != 1:
        raise UsageError(f"{path} = {show(pattern)} has {groups} groups: expected one, around the answer")


def _check_reward(reward: RewardSection, where: str) -> None:
    if reward.timeout_s is not None and reward.timeout_s < 0:
        raise UsageError(f"{where}.timeout_s = {reward.timeout_s}: expected seconds; 0 is no limit")
    if reward.clip is not None and not (len(reward.clip) == 2 and reward.clip[0] < reward.clip[1]):
        raise UsageError(f"{where}.clip = {list(reward.clip)}: expected [low, high]")
    if reward.retries is not None and reward.retries < 0:
        raise UsageError(f"{where}.retries = {reward.retries}: expected 0 or more")
