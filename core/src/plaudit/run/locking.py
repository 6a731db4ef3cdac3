"""The lock of a run: written to its folder and into each checkpoint."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from plaudit.plugins.lock import Lock
from plaudit.run.folder import RunFolder
from plaudit.run.preflight import Prepared


def lock_of(prepared: Prepared) -> Lock:
    """The lock of a run's rewards as they are installed now, under the names they have in the run."""
    named = [dataclasses.replace(spec.reward.component, name=spec.name) for spec in prepared.rewards]
    return Lock.of(named, seed=prepared.config.seed)


class LockInCheckpoints(TrainerCallback):
    """Puts the lock beside what each checkpoint saves."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Write plaudit.lock into the checkpoint that was just saved."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            self._lock.write(folder / RunFolder(folder).lock.name)
