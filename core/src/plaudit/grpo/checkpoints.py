"""What a checkpoint keeps beside the Trainer's own files, so that a resumed run goes on as if it had not stopped.

`plaudit_state.pth` (one a rank, `plaudit_state_0.pth`… when there are several): the position in the data, the
rollouts and scores of a partly used buffer, the metrics of an unfinished logging window. `entropy_ctrl_state.json`:
the entropy controller.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..scoring.errors import ScoringPaused

if TYPE_CHECKING:
    from .recording import RecordingTrainer

ENTROPY_FILE = "entropy_ctrl_state.json"


def save(trainer: RecordingTrainer, folder: Path) -> None:
    """Write this rank's state into the checkpoint folder. Every rank must call it."""
    window = trainer.windows["train"]
    window.settle(trainer.world)
    state = {
        "source": trainer.source.state_dict(trainer.state),
        "window": window.state_dict(),
        "scorer": trainer.source.collector.scorer.state_dict(),
        "loss": {"sum": float(trainer._tr_loss), "last_logged": trainer._globalstep_last_logged},
    }
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / _file_name(trainer))
    if trainer.entropy.adaptive and trainer.args.should_save:
        (folder / ENTROPY_FILE).write_text(json.dumps(trainer.entropy.state_dict()), encoding="utf-8")


def load(trainer: RecordingTrainer, folder: Path) -> dict[str, Any] | None:
    """Continue from a checkpoint. Returns what must wait until the first step: the unfinished loss window."""
    if (folder / ENTROPY_FILE).is_file() and trainer.entropy.adaptive:
        trainer.entropy.load_state_dict(json.loads((folder / ENTROPY_FILE).read_text(encoding="utf-8")))
    trainer.run_log.rewind(trainer.state.global_step)
    file = folder / _file_name(trainer)
    if not file.is_file():
        warnings.warn(
            f"{folder} has no {file.name}: completions that were not learnt from yet are generated again", stacklevel=2
        )
        trainer.source.position = trainer.state.global_step * trainer.args.gradient_accumulation_steps
        return None
    state = torch.load(file, map_location="cpu", weights_only=True)
    trainer.source.load_state_dict(state["source"], trainer.args.device)
    trainer.windows["train"].load_state_dict(state["window"])
    trainer.source.collector.scorer.load_state_dict(state["scorer"])
    return state["loss"]


def restore_loss(trainer: RecordingTrainer, loss: dict[str, Any]) -> None:
    """Put back the loss summed since the last log; the Trainer clears it when training begins."""
    trainer._tr_loss += loss["sum"]
    trainer._globalstep_last_logged = loss["last_logged"]


@contextmanager
def saved_when_paused(trainer: RecordingTrainer) -> Iterator[None]:
    """When too few rewards could score, save a checkpoint of the last finished optimizer step before the run ends."""
    try:
        yield
    except ScoringPaused:
        # What was accumulated towards the next step is lost with the run, so its rollouts are asked for again.
        trainer.source.forget(trainer.state.global_step * trainer.args.gradient_accumulation_steps)
        trainer._save_checkpoint(trainer.model, None)
        trainer.control = trainer.callback_handler.on_save(trainer.args, trainer.state, trainer.control)
        raise


def _file_name(trainer: RecordingTrainer) -> str:
    alone = trainer.args.world_size <= 1
    return "plaudit_state.pth" if alone else f"plaudit_state_{trainer.args.process_index}.pth"
