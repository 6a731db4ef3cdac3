"""Where the completions table goes beside the run folder: the trackers of `report_to` that have tables, and the hub."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..writing import Mode

Columns = Mapping[str, Sequence[Any]]
Sink = Callable[[Columns, Mode, int], None]
UPLOAD_EVERY_MINUTES = 2
IMAGES = "images"
"""The column of a rollout's images, which trackers show and files leave out."""


def sinks_of(report_to: str | Sequence[str] | None) -> tuple[Sink, ...]:
    """The sinks among the trackers that a run reports to. Each batch gets its own key, so that none hides another."""
    names = [report_to] if isinstance(report_to, str) else list(report_to or ())
    return tuple(_TRACKERS[name] for name in names if name in _TRACKERS)


def to_wandb(columns: Columns, mode: Mode, step: int) -> None:
    """A table `completions/train/step_00010` in the run that transformers' callback has begun."""
    import wandb

    if wandb.run is not None:
        shown = _plain(columns, wandb.Image)
        table = wandb.Table(columns=list(columns), data=[list(row) for row in zip(*shown, strict=True)])
        wandb.log({_key(mode, step): table, "train/global_step": step}, commit=False)


def to_trackio(columns: Columns, mode: Mode, step: int) -> None:
    """As `to_wandb`, in trackio."""
    import pandas
    import trackio

    frame = pandas.DataFrame(dict(zip(columns, _plain(columns, getattr(trackio, "Image", str)), strict=True)))
    trackio.log({_key(mode, step): trackio.Table(dataframe=frame)})


def start_upload(repo: str, folder: Path) -> Any:
    """Upload new parquet files of `folder` to a dataset on the hub every two minutes, and at the end of the program."""
    from huggingface_hub import CommitScheduler

    folder.mkdir(parents=True, exist_ok=True)
    return CommitScheduler(
        repo_id=repo, repo_type="dataset", folder_path=folder, every=UPLOAD_EVERY_MINUTES, allow_patterns=["*.parquet"]
    )


def _key(mode: Mode, step: int) -> str:
    return f"completions/{mode}/step_{step:05d}"


def _plain(columns: Columns, as_image: Callable[[Any], Any]) -> list[list[Any]]:
    """The columns with messages and other structures as JSON text, which every tracker shows, and images as its own."""
    return [
        [[as_image(image) for image in cell] for cell in values] if name == IMAGES else [_cell(cell) for cell in values]
        for name, values in columns.items()
    ]


def _cell(cell: Any) -> Any:
    return cell if cell is None or isinstance(cell, (str, int, float, bool)) else _as_text(cell)


def _as_text(cell: Any) -> str:
    return json.dumps(cell, ensure_ascii=False, default=str)


_TRACKERS: dict[str, Sink] = {"wandb": to_wandb, "trackio": to_trackio}
