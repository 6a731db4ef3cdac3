"""Which checkpoint a run resumes from, and whether it can. Asked before a model's weights are loaded again."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .checkpoint_folders import CheckpointError, clear_incomplete, newest_whole, problem_of, read_manifest
from .checkpoints import run_facts

if TYPE_CHECKING:
    from ..recording import RecordingTrainer

# A run with another one of these draws other rows from here on, but goes on.
_DRAWN = ("seed", "shuffle_dataset")


def checkpoint_to_resume(trainer: RecordingTrainer, asked: str | Path | bool | None) -> str | None:
    """The checkpoint folder that `train(resume_from_checkpoint=asked)` means; None = begin at the first row.

    Every rank must call it, and gets what the first one found. Removes what a killed process left half-written. Raises
    CheckpointError on a folder that is not whole, or that a run of another shape saved.
    """
    root = Path(trainer.args.output_dir)
    main = trainer.accelerator.is_main_process

    def find() -> str | None:
        if not main:
            return None
        clear_incomplete(root)
        return _find(root, asked)

    folder = trainer.source.collector.ranks.share(find)[0]
    if folder is not None:
        _check_shape(Path(folder), run_facts(trainer))
    return folder


def _find(root: Path, asked: str | Path | bool | None) -> str | None:
    if asked is None or asked is False:
        return None
    if asked is True:
        found = newest_whole(root)
        if found is None:
            raise CheckpointError(f"'{root}' holds no checkpoint; leave resume_from_checkpoint out to start")
        return str(found)
    folder = Path(asked)
    if not folder.is_dir():
        raise CheckpointError(f"resume_from_checkpoint: there is no folder '{folder}'")
    problem = problem_of(folder)
    # Without our own state the run can go on at its step; `load` says what that means.
    if problem is not None and not problem.startswith("plaudit_state"):
        raise CheckpointError(f"'{folder}' cannot be resumed from, it is not whole: {problem}; choose an earlier one")
    return str(folder)


def _check_shape(folder: Path, now: Mapping[str, Any]) -> None:
    manifest = read_manifest(folder)
    if manifest is None:
        return
    then = manifest["run"]
    changed = {name: (then[name], now[name]) for name in now if name in then and then[name] != now[name]}
    listed = "; ".join(f"{name} {before} then, {after} now" for name, (before, after) in changed.items())
    if changed.keys() - set(_DRAWN):
        raise CheckpointError(
            f"'{folder}' was saved by a run of another shape ({listed}), so its place in the data and its rollouts do "
            "not fit. Resume with the same values, or start a new run with this folder as the model"
        )
    if changed:
        warnings.warn(f"'{folder}': {listed}; rows come in another order from here on", stacklevel=3)
