"""Which checkpoints are whole, what cannot be resumed from, and a disk that is full."""

from __future__ import annotations

import json
import os
import shutil
from unittest import mock

import pytest
import torch
from plaudit.grpo.saving.checkpoint_folders import (
    CheckpointError,
    checkpoints_of,
    clear_incomplete,
    newest_whole,
    problem_of,
)
from plaudit.run.folder import RunFolder
from test_resume import kept

from runs import ROWS, make_trainer, metrics_of

SAVING = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": None, "max_steps": 3}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a run of three steps with three checkpoints; copy it before changing it."""
    folder = tmp_path_factory.mktemp("saved")
    make_trainer(folder, **SAVING).train()
    return folder


DAMAGE = {
    "no trainer state": lambda folder: (folder / "trainer_state.json").unlink(),
    "half the weights": lambda folder: os.truncate(folder / "model.safetensors", 1000),
    "no optimizer": lambda folder: (folder / "optimizer.pt").unlink(),
    "no state of ours": lambda folder: (folder / "plaudit_state.pth").unlink(),
    "half a manifest": lambda folder: os.truncate(folder / "plaudit_files.json", 30),
    "an empty folder": lambda folder: [path.unlink() for path in folder.iterdir()],
    "weights alone, of another program": lambda folder: [
        path.unlink() for path in folder.iterdir() if path.name not in ("model.safetensors", "config.json")
    ],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_half_written_checkpoint_is_skipped_with_a_warning(damage, saved, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(saved, folder)
    DAMAGE[damage](folder / "checkpoint-3")
    with pytest.warns(UserWarning, match=r"checkpoint-3 is skipped, it is not whole: "):
        assert newest_whole(folder) == folder / "checkpoint-2"
    with pytest.warns(UserWarning, match=r"checkpoint-3 is skipped"):
        assert RunFolder(folder).find_checkpoint("latest") == folder / "checkpoint-2"


def test_a_checkpoint_that_was_not_written_by_us_counts_when_it_has_weights_and_a_state(saved, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(saved, folder)
    for name in ("plaudit_files.json", "plaudit_state.pth"):
        (folder / "checkpoint-3" / name).unlink()
    assert newest_whole(folder) == folder / "checkpoint-3"


def test_resuming_takes_the_last_whole_checkpoint_and_clears_what_is_half_written(saved, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(saved, folder)
    DAMAGE["half the weights"](folder / "checkpoint-3")
    (folder / "incomplete" / "checkpoint-3").mkdir(parents=True)
    # A process that was killed while it wrote a line.
    with (folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 4, "lo')
    trainer = make_trainer(folder, **SAVING)
    with pytest.warns(UserWarning, match="checkpoint-3 is skipped"):
        trainer.train(resume_from_checkpoint=True)
    assert not (folder / "incomplete").exists()
    assert kept(metrics_of(folder)) == kept(metrics_of(saved))
    assert problem_of(folder / "checkpoint-3") is None


def test_a_checkpoint_that_was_being_replaced_comes_back(saved, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(saved, folder)
    (folder / "incomplete").mkdir()
    (folder / "checkpoint-3").rename(folder / "incomplete" / "replaced-checkpoint-3")
    clear_incomplete(folder)
    assert problem_of(folder / "checkpoint-3") is None
    assert not (folder / "incomplete").exists()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("nowhere", r"there is no folder '.*nowhere'"),
        ("checkpoint-3", r"checkpoint-3' cannot be resumed from, it is not whole: model.safetensors has 1000 bytes"),
        (True, r"holds no checkpoint; leave resume_from_checkpoint out"),
    ],
)
def test_what_cannot_be_resumed_from_is_said(asked, message, saved, tmp_path):
    folder = tmp_path / "run"
    if asked is not True:
        shutil.copytree(saved, folder)
        DAMAGE["half the weights"](folder / "checkpoint-3")
        asked = str(folder / asked)
    with pytest.raises(CheckpointError, match=message):
        make_trainer(folder, **SAVING).train(resume_from_checkpoint=asked)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_iterations": 2}, r"num_iterations 1 then, 2 now"),
        ({"num_generations": 2}, r"num_generations 4 then, 2 now"),
        (
            {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
            r"per_device_train_batch_size 8 then, 4 now; steps_per_generation 1 then, 2 now; gradient_accumulation",
        ),
    ],
)
def test_a_run_of_another_shape_is_refused(change, message, saved, tmp_path):
    trainer = make_trainer(tmp_path, **{**SAVING, **change})
    with pytest.raises(CheckpointError, match=message):
        trainer.train(resume_from_checkpoint=str(saved / "checkpoint-3"))


def test_another_number_of_processes_is_refused(saved, tmp_path):
    folder = tmp_path / "checkpoint-3"
    shutil.copytree(saved / "checkpoint-3", folder)
    manifest = json.loads((folder / "plaudit_files.json").read_text())
    manifest["run"]["processes"] = 4
    (folder / "plaudit_files.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"another shape \(processes 4 then, 1 now\)"):
        make_trainer(tmp_path, **SAVING).train(resume_from_checkpoint=str(folder))


def test_another_seed_is_resumed_with_a_warning(saved, tmp_path):
    trainer = make_trainer(tmp_path, **{**SAVING, "seed": 1})
    with pytest.warns(UserWarning, match="seed 42 then, 1 now; rows come in another order"):
        trainer.train(resume_from_checkpoint=str(saved / "checkpoint-2"))


def full_disk(times):
    """torch.save that writes half of a file and fails at its `times`-th call and ever after."""
    calls, save = [], torch.save

    def failing(value, path, *args, **kwargs):
        calls.append(path)
        save(value, path, *args, **kwargs)
        if len(calls) >= times:
            os.truncate(path, os.path.getsize(path) // 2)
            raise OSError(28, "No space left on device", str(path))

    return mock.patch("torch.save", failing)


@pytest.mark.parametrize("limit", [None, 1])
def test_a_full_disk_is_an_error_that_loses_nothing_earlier(limit, tmp_path):
    options = {**SAVING, "save_total_limit": limit}
    whole = make_trainer(tmp_path / "whole", **options)
    whole.train()
    trainer = make_trainer(tmp_path / "run", **options)
    with full_disk(8), pytest.raises(CheckpointError, match=r"checkpoint-2 could not be saved \(OSError: .*No space"):
        trainer.train()
    assert [path.name for path in checkpoints_of(tmp_path / "run")] == ["checkpoint-1"]
    assert newest_whole(tmp_path / "run") == tmp_path / "run" / "checkpoint-1"
    assert not (tmp_path / "run" / "incomplete").exists()
    rest = make_trainer(tmp_path / "run", **options)
    rest.train(resume_from_checkpoint=True)
    for one, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_save_total_limit_keeps_the_last_and_the_best(tmp_path):
    options = {"eval_strategy": "steps", "eval_steps": 1, "load_best_model_at_end": True, "greater_is_better": True}
    trainer = make_trainer(
        tmp_path,
        eval_rows=ROWS[:4],
        metric_for_best_model="eval_rewards/count_digits/mean",
        **{**SAVING, "max_steps": 5, "save_total_limit": 2, **options},
    )
    trainer.train()
    scores = {
        line["step"]: line["eval_rewards/count_digits/mean"] for line in metrics_of(tmp_path) if "eval_reward" in line
    }
    best = max(scores, key=lambda step: (scores[step], -step))
    assert trainer.state.best_model_checkpoint == str(tmp_path / f"checkpoint-{best}")
    assert {path.name for path in checkpoints_of(tmp_path)} == {f"checkpoint-{best}", "checkpoint-5"}
    state = json.loads((tmp_path / "checkpoint-5" / "trainer_state.json").read_text())
    assert state["best_model_checkpoint"] == str(tmp_path / f"checkpoint-{best}")
    from safetensors.torch import load_file

    loaded = load_file(tmp_path / f"checkpoint-{best}" / "model.safetensors")
    for name, value in trainer.model.named_parameters():
        if name in loaded:
            assert torch.equal(value, loaded[name]), name
