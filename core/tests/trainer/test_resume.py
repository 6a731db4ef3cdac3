"""A run that is stopped and resumed ends with the weights and the log of one that was not, to the bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch
from killed_main import SCENARIOS
from plaudit.grpo.saving.checkpoint_folders import (
    CheckpointError,
    checkpoints_of,
    clear_incomplete,
    newest_whole,
    problem_of,
)
from plaudit.run.folder import RunFolder

from runs import ROWS, make_trainer, metrics_of

KILLED_MAIN = Path(__file__).with_name("killed_main.py")
TIMINGS = ("step_time", "runtime", "_per_second", "scoring/")

CASES = {
    "aligned": {},
    "in the middle of a cycle": {"per_device_train_batch_size": 4, "steps_per_generation": 4, "num_iterations": 2},
    "accumulating": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "steps_per_generation": 4},
    "inside a logging window": {"logging_steps": 4},
    "with a reference and entropy control": {
        "beta": 0.1,
        "num_iterations": 2,
        "use_adaptive_entropy": True,
        "entropy_coef": 0.01,
        "entropy_target": 9.0,
    },
    "with a moving reference": {"beta": 0.5, "sync_ref_model": True, "ref_model_sync_steps": 2},
}


QUICK = {"with a moving reference", "aligned", "in the middle of a cycle"}


@pytest.mark.parametrize("case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES])
def test_resumed_equals_uninterrupted(case, tmp_path):
    # 16 rows and at least 2 prompts a batch: six steps end one epoch and begin another in some cases.
    options = {**CASES[case], "max_steps": 6, "save_strategy": "steps", "save_steps": 3, "save_total_limit": None}
    whole = make_trainer(tmp_path, **options)
    whole.train()
    expected = metrics_of(tmp_path)
    rest = make_trainer(tmp_path, **options)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))

    for (name, one), other in zip(whole.model.named_parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other), name
    assert kept(metrics_of(tmp_path)) == kept(expected)


def kept(lines):
    return [{key: value for key, value in line.items() if not any(part in key for part in TIMINGS)} for line in lines]


def test_epochs_after_a_resume_go_on_in_the_same_order(tmp_path):
    def prompts(trainer):
        found = []
        original = trainer.source.collected
        trainer.source.collected = lambda batch, mode: (
            found.append([rollout.row.prompt for rollout in batch.rollouts]),
            original(batch, mode),
        )
        return found

    options = {"max_steps": 12, "save_strategy": "steps", "save_steps": 9}
    whole = make_trainer(tmp_path, **options)
    expected = prompts(whole)
    whole.train()
    assert expected[0] != expected[8]
    rest = make_trainer(tmp_path, **options)
    found = prompts(rest)
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-9"))
    assert found == expected[9:]


def test_a_checkpoint_without_our_state_is_resumed_at_its_step_with_a_warning(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=4, save_strategy="steps", save_steps=2)
    trainer.train()
    (tmp_path / "checkpoint-2" / "plaudit_state.pth").unlink()
    again = make_trainer(tmp_path, max_steps=4)
    with pytest.warns(UserWarning, match="has no plaudit_state.pth"):
        again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert again.state.global_step == 4
    assert again.source.position == 4


def test_training_twice_begins_at_the_first_row_again(tmp_path):
    trainer = make_trainer(tmp_path, max_steps=2, per_device_train_batch_size=4, steps_per_generation=4)
    trainer.train()
    assert trainer.source.buffer
    trainer.train()
    assert trainer.source.position == 2


# What a killed run leaves


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """What differs between runs that were killed four times and runs that were not, by scenario."""
    folder = tmp_path_factory.mktemp("killed")

    def differences(*scenarios):
        done = subprocess.run(
            [sys.executable, str(KILLED_MAIN), str(folder), *scenarios],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads((folder / f"{scenarios[0]}.json").read_text())

    return differences


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "scenario",
    ["mid-cycle", *(pytest.param(name, marks=pytest.mark.slow) for name in SCENARIOS if name != "mid-cycle")],
)
def test_a_run_that_is_killed_at_any_point_ends_as_one_that_is_not(scenario, killed):
    found = killed(scenario)
    assert sum(signal == 9 for _, signal, _ in found["kills"]) >= 3
    assert any(resumed for *_, resumed in found["kills"])
    assert found["differences"] == []


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
