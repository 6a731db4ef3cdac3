"""The lock of a run: written to its folder and into each checkpoint."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from plaudit.plugins.lock import Lock, LockedComponent, locked_plugin
from plaudit.run import model_files, origins
from plaudit.run.folder import RunFolder
from plaudit.run.preflight import Prepared
from plaudit.run.schema import RunFile


def lock_of(prepared: Prepared) -> Lock:
    """The lock of a run as it is installed now: its rewards under the names they have in it, and all other plugins."""
    named = [dataclasses.replace(spec.reward.component, name=spec.name) for spec in prepared.rewards]
    return Lock.of(named, locked_parts(prepared.run), seed=prepared.config.seed)


def locked_parts(run: RunFile) -> list[LockedComponent]:
    """The environments, tools, datasets and models of plugins that a run uses. Raises UsageError or PluginError."""
    parts: dict[str, LockedComponent] = {}
    for kind, reference, options, place in _plugins(run):
        part = locked_plugin(kind, reference, options)
        if parts.setdefault(part.label, part) != part:
            # The same plugin with other options.
            part = dataclasses.replace(part, name=f"{part.name} of {place}")
            parts[part.label] = part
    return list(parts.values())


def _plugins(run: RunFile) -> Iterator[tuple[str, str, Mapping[str, Any], str]]:
    """Kind, reference, options and place of each."""
    if model_files.comes_from_plugin(run.model):
        yield "model", run.model.path, {}, "model"
    sections = [(run.data, "data"), *((task.data, f"task {task.name}") for task in run.tasks)]
    sections += [(run.canary.data, "canary")] if run.canary is not None else []
    for data, place in sections:
        if data is not None and origins.comes_from_plugin(data):
            yield "dataset", str(data.name), data.options, place
    environments = [(one, f"route {one.route or one.name}") for one in run.environments]
    environments += [(task.environment, f"task {task.name}") for task in run.tasks if task.environment is not None]
    for section, place in environments:
        yield "environment", section.name, section.options, place
    for reference in run.tools:
        yield "tool", reference, {}, "tools"


class LockInCheckpoints(TrainerCallback):
    """Puts the lock beside what each checkpoint saves."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write plaudit.lock into the checkpoint that was just saved."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            self._lock.write(folder / RunFolder(folder).lock.name)
