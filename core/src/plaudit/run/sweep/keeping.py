"""What a sweep keeps on disk to be resumed: sweep.json with its trials, settings.json with what it set out to do."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError

from .schema import SweepFile
from .search import JOURNAL
from .trials import Trial, trial_folder

TRIALS, SETTINGS, LOCK = "sweep.json", "settings.json", "sweep.lock"
FREE = ("trials", "parallel", "clones", "window", "output_dir")
"""What may change between the parts of a sweep; all else decides what its trials are."""


@contextmanager
def sweep_folder(file: SweepFile, *, resume: bool, overwrite: bool) -> Iterator[Path]:
    """The sweep's folder, this process's alone while it is open. Raises UsageError.

    Without `resume` there must be no sweep in it, or `overwrite` removes that one; with `resume` there must be one that
    set out to do the same.
    """
    root = Path(file.output_dir)
    held = (root / TRIALS).exists()
    if held and not (resume or overwrite):
        raise UsageError(f"'{root}' holds a sweep already: --resume continues it, --overwrite replaces it")
    if resume and not held:
        raise UsageError(f"--resume: '{root}' holds no sweep; leave --resume out to start")
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"'{root}': another process runs this sweep; wait for it, or end it first") from None
        if resume:
            _require_same(file, root)
        elif held:
            _clear(root)
        write_json(root / SETTINGS, settings_of(file))
        yield root


def settings_of(file: SweepFile) -> dict[str, Any]:
    """All that must stay as it is, the run file by its content."""
    kept = {name: value for name, value in dataclasses.asdict(file).items() if name not in FREE}
    found = json.loads(json.dumps({**kept, "run_file": Path(file.run).read_text(encoding="utf-8")}, default=str))
    del found["run"]
    return dict(found)


def write_trials(root: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write sweep.json."""
    root.mkdir(parents=True, exist_ok=True)
    write_json(root / TRIALS, lines)


def read_trials(root: Path) -> tuple[list[Trial], dict[int, list[float | None]]]:
    """The trials of sweep.json, and what each scored when it was judged. Raises UsageError when it is not a sweep's."""
    try:
        lines = json.loads((root / TRIALS).read_text(encoding="utf-8"))
        trials = [
            Trial(
                line["trial"],
                line["params"],
                trial_folder(root, line["trial"]),
                parent=line["parent"],
                status=line["status"],
                seconds=line["seconds"],
            )
            for line in lines
        ]
        return trials, {line["trial"]: line["judged"] for line in lines}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"'{root / TRIALS}' cannot be resumed from: {type(error).__name__}: {error}") from None


def write_json(path: Path, content: Any) -> None:
    """Write a file so that a kill leaves the old or the new one."""
    staged = path.with_name(f"{path.name}.new")
    staged.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    os.replace(staged, path)


def _require_same(file: SweepFile, root: Path) -> None:
    try:
        before = json.loads((root / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--resume: '{root / SETTINGS}' cannot be read: {error}") from None
    now = settings_of(file)
    changed = [name for name in now if now[name] != before.get(name)]
    if changed:
        named = ", ".join("the run file" if name == "run_file" else name for name in changed)
        raise UsageError(
            f"--resume: {named} changed since this sweep began; change it back, or give it another output_dir "
            f"({', '.join(FREE[:-1])} may change)"
        )


def _clear(root: Path) -> None:
    for folder in root.glob("trial-*"):
        shutil.rmtree(folder)
    for name in (TRIALS, SETTINGS, JOURNAL, "sweep.png"):
        (root / name).unlink(missing_ok=True)
