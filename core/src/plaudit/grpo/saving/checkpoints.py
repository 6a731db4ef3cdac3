"""What a checkpoint keeps beside the Trainer's own files, so that a resumed run goes on as if it had not stopped.

`plaudit_state.pth` (one a rank, `plaudit_state_0.pth`… when there are several): the position in the data, the
rollouts and scores of a partly used buffer, the metrics of an unfinished logging window. `entropy_ctrl_state.json`:
the entropy controller. `plaudit_files.json`: all files with their sizes, by which a half-written folder is known.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ...scoring.errors import ScoringPaused
from ..ranks import PeerError
from .checkpoint_folders import TRAINER_STATE, CheckpointError, checkpoints_of, publish, seal, staging_root

if TYPE_CHECKING:
    from ..recording import RecordingTrainer

ENTROPY_FILE = "entropy_ctrl_state.json"


def save(trainer: RecordingTrainer, run_folder: Path, write: Callable[[], None]) -> None:
    """Save a checkpoint beside its place with `write`, the Trainer's own way, and rename it into `run_folder`.

    Every rank must call it. Raises CheckpointError when it cannot be written; earlier checkpoints are kept then.
    """
    ranks, root = trainer.source.collector.ranks, staging_root(run_folder)
    staged = root / f"checkpoint-{trainer.state.global_step}"
    final = run_folder / staged.name
    writes = trainer.accelerator.is_local_main_process
    trainer.own_state = state_of(trainer)
    try:
        ranks.share(lambda: shutil.rmtree(root, ignore_errors=True) if writes else None)
        trainer.staging = str(root)
        ranks.share(lambda: _write(trainer, run_folder, staged, write))
        # On a shared disk the main process renames for all; elsewhere the first of each node has a folder of its own.
        ranks.share(lambda: _finish(trainer, staged, final) if trainer.accelerator.is_main_process else None)
        ranks.share(lambda: _finish(trainer, staged, final) if writes and staged.is_dir() else None)
    except PeerError:
        raise
    except Exception as error:
        shutil.rmtree(root, ignore_errors=True)
        raise CheckpointError(_why(run_folder, final, error)) from error
    finally:
        trainer.staging, trainer.own_state = None, {}


def state_of(trainer: RecordingTrainer) -> dict[str, Any]:
    """This rank's own state. Every rank must call it: pending scores are waited for, pending metrics reduced."""
    window = trainer.windows["train"]
    window.settle(trainer.world)
    return {
        "source": trainer.source.state_dict(trainer.state),
        "window": window.state_dict(),
        "scorer": trainer.source.collector.scorer.state_dict(),
        "loss": {
            "sum": float(trainer._tr_loss),
            "total": float(trainer._total_loss_scalar),
            "last_logged": trainer._globalstep_last_logged,
        },
        "log": trainer.run_log.state_dict(),
    }


def write_state(trainer: RecordingTrainer, folder: Path) -> None:
    """Write this rank's state into a checkpoint that is being written."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(trainer.own_state, folder / _file_name(trainer))
    if trainer.moving_reference is not None:
        trainer.moving_reference.save(folder)
    if trainer.entropy.adaptive and trainer.args.should_save:
        (folder / ENTROPY_FILE).write_text(json.dumps(trainer.entropy.state_dict()), encoding="utf-8")


def load(trainer: RecordingTrainer, folder: Path) -> dict[str, Any] | None:
    """Continue from a checkpoint. Returns what must wait until the first step: the unfinished loss window."""
    if (folder / ENTROPY_FILE).is_file() and trainer.entropy.adaptive:
        trainer.entropy.load_state_dict(json.loads((folder / ENTROPY_FILE).read_text(encoding="utf-8")))
    if trainer.moving_reference is not None:
        trainer.moving_reference.load(folder)
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
    trainer.run_log.load_state_dict(state["log"])
    return state["loss"]


def restore_loss(trainer: RecordingTrainer, loss: dict[str, Any]) -> None:
    """Put back the losses summed before; the Trainer clears them when training begins."""
    trainer._tr_loss += loss["sum"]
    trainer._total_loss_scalar = loss["total"]
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


def _write(trainer: RecordingTrainer, run_folder: Path, staged: Path, write: Callable[[], None]) -> None:
    state = trainer.state
    best = state.best_global_step
    # The Trainer would look for the best checkpoint in the staging folder, and wait for the other ranks there.
    state.best_global_step = None
    try:
        write()
    finally:
        state.best_global_step = best
    if best and (best == state.global_step or (run_folder / f"checkpoint-{best}").is_dir()):
        state.best_model_checkpoint = str(run_folder / f"checkpoint-{best}")
    if trainer.args.should_save:
        state.save_to_json(str(staged / TRAINER_STATE))


def _finish(trainer: RecordingTrainer, staged: Path, final: Path) -> None:
    seal(staged, run_facts(trainer))
    publish(staged, final)


def run_facts(trainer: RecordingTrainer) -> dict[str, Any]:
    """What a run that resumes must have in common with the one that saved."""
    args = trainer.args
    return {"processes": trainer.world.size} | {
        name: getattr(args, name)
        for name in (
            "num_generations",
            "per_device_train_batch_size",
            "steps_per_generation",
            "gradient_accumulation_steps",
            "num_iterations",
            "reward_lookahead",
            "seed",
            "shuffle_dataset",
        )
    }


def _why(run_folder: Path, final: Path, error: Exception) -> str:
    kept = ", ".join(path.name for path in checkpoints_of(run_folder)) or "none"
    free = shutil.disk_usage(run_folder if run_folder.is_dir() else run_folder.parent).free / 1e6
    return (
        f"{final} could not be saved ({type(error).__name__}: {error}); {free:,.0f} MB are free there. Nothing of it "
        f"is left, and the earlier checkpoints are kept ({kept}): make room, or lower save_total_limit, and resume"
    )


def _file_name(trainer: RecordingTrainer) -> str:
    alone = trainer.args.world_size <= 1
    return "plaudit_state.pth" if alone else f"plaudit_state_{trainer.args.process_index}.pth"
