"""Checkpoint folders: written beside their place and renamed into it, so that each is there whole or not at all.

Imports no torch: `plaudit train --resume` looks for a checkpoint before anything heavy is loaded.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...errors import PlauditError

MANIFEST = "plaudit_files.json"
INCOMPLETE = "incomplete"
TRAINER_STATE = "trainer_state.json"
_NAME = re.compile(r"checkpoint-(\d+)")
_WEIGHTS = ("*.safetensors", "*.bin", "*/adapter_model.*", "pytorch_model_fsdp*", "global_step*")


class CheckpointError(PlauditError):
    """A checkpoint could not be written, or cannot be resumed from."""


def staging_root(run_folder: Path) -> Path:
    """Where checkpoints of a run are written until they are whole."""
    return run_folder / INCOMPLETE


def seal(folder: Path, run: Mapping[str, Any]) -> None:
    """Note every file with its size, and `run`, in the manifest; then force all of the folder to disk."""
    files = {str(path.relative_to(folder)): path.stat().st_size for path in _files(folder)}
    (folder / MANIFEST).write_text(json.dumps({"files": files, "run": dict(run)}, indent=1), encoding="utf-8")
    for path in [*folder.rglob("*"), folder]:
        _sync(path)


def publish(staged: Path, final: Path) -> None:
    """Put a sealed folder into its place. A folder of the same name gives way only when the new one is there."""
    replaced = staged.with_name(f"replaced-{final.name}")
    if final.exists():
        os.rename(final, replaced)
    os.rename(staged, final)
    _sync(final.parent)
    shutil.rmtree(staged.parent, ignore_errors=True)


def clear_incomplete(run_folder: Path) -> None:
    """Remove what a killed process left half-written; what it was about to replace comes back."""
    root = staging_root(run_folder)
    for replaced in root.glob("replaced-checkpoint-*"):
        final = run_folder / replaced.name.removeprefix("replaced-")
        if not final.exists():
            os.rename(replaced, final)
    shutil.rmtree(root, ignore_errors=True)


def checkpoints_of(run_folder: Path) -> list[Path]:
    """Checkpoint folders, the oldest first, whole or not."""
    found = [
        (int(match[1]), path)
        for path in run_folder.glob("checkpoint-*")
        if (match := _NAME.fullmatch(path.name)) and path.is_dir()
    ]
    return [path for _, path in sorted(found)]


def newest_whole(run_folder: Path) -> Path | None:
    """The last checkpoint that is whole. Warns of later ones that are not."""
    for folder in reversed(checkpoints_of(run_folder)):
        problem = problem_of(folder)
        if problem is None:
            return folder
        warnings.warn(f"{folder} is skipped, it is not whole: {problem}", stacklevel=2)
    return None


def problem_of(folder: Path) -> str | None:
    """Why a checkpoint folder is not whole; None when it is. Without a manifest the least that must be there counts."""
    manifest = read_manifest(folder)
    if manifest is None:
        return _obvious_problem(folder)
    for name, size in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    return None


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """What `seal` wrote; None when there is nothing, or nothing that can be read."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"files", "run"} <= found.keys() else None


def _obvious_problem(folder: Path) -> str | None:
    if (folder / MANIFEST).exists():
        return f"{MANIFEST} cannot be read"
    try:
        json.loads((folder / TRAINER_STATE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return f"{TRAINER_STATE} is missing"
    except (OSError, ValueError):
        return f"{TRAINER_STATE} cannot be read"
    if not any(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        return "it holds no weights"
    return None


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST)


def _sync(path: Path) -> None:
    # Some file systems refuse to open folders; their renames are then as safe as they are.
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
