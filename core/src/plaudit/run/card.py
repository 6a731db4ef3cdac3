"""The model card of a run: README.md and the learning curve beside the trained model."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from plaudit.grpo.saving.model_card import model_card, table
from plaudit.plugins.lock import Lock
from plaudit.run.curve import read_metrics
from plaudit.run.folder import RunFolder
from plaudit.run.heldout import Evaluation
from plaudit.run.origins import comes_from_plugin
from plaudit.run.preflight import Prepared
from plaudit.run.report import comparison_rows
from plaudit.run.schema import RunFile


def write_card(
    prepared: Prepared, folder: RunFolder, lock: Lock, evaluations: Mapping[str, Evaluation], decoding: str
) -> None:
    """Write the card into the model's folder: with the held-out rows before and after, and every plugin's version."""
    if folder.curve.is_file():
        shutil.copyfile(folder.curve, folder.model / folder.curve.name)
    path = Path(prepared.run.model.path)
    text = model_card(
        name=folder.root.absolute().name,
        # Where a folder lies says nothing to others.
        base=path.absolute().name if path.is_dir() else prepared.run.model.path,
        dataset=_hub_datasets(prepared.run),
        tags=[],
        specs=prepared.rewards,
        args=prepared.config,
        history=read_metrics(folder.metrics),
        folder=folder.model,
        library="transformers" if prepared.peft_config is None else "peft",
        sections=[*_judged(evaluations, decoding), _plugins(lock)],
    )
    (folder.model / "README.md").write_text(text, encoding="utf-8")


def _hub_datasets(run: RunFile) -> list[str] | None:
    sections = [run.data, *(task.data for task in run.tasks)]
    names = [str(data.name) for data in sections if data is not None and data.name and not comes_from_plugin(data)]
    return list(dict.fromkeys(names)) or None


def _judged(evaluations: Mapping[str, Evaluation], decoding: str) -> list[str]:
    if not evaluations:
        return []
    rows = next(iter(evaluations.values())).rows
    found = table(("reward", *evaluations), comparison_rows(evaluations))
    return [f"## Held-out rows\n\n{rows} rows, {decoding}:\n\n{found}"]


def _plugins(lock: Lock) -> str:
    rows = [
        (one.name, one.kind, one.distribution or "no distribution", one.version or "", (one.files or "")[:12])
        for one in lock.components
    ]
    return "## Plugins\n\n" + table(("name", "kind", "from", "version", "SHA-256 of its files"), rows)
