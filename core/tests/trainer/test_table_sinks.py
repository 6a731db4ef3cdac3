"""Completions tables in trackers and on the hub."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from plaudit.grpo.reporting import table_sinks

from runs import make_trainer

COLUMNS = {"step": [3, 3], "prompt": ["a", [{"role": "user", "content": "ü"}]], "score": [0.5, None]}


def test_only_trackers_with_tables_are_sinks():
    assert table_sinks.sinks_of(["tensorboard", "wandb", "none"]) == (table_sinks.to_wandb,)
    assert table_sinks.sinks_of("trackio") == (table_sinks.to_trackio,)
    assert table_sinks.sinks_of(None) == ()


def test_a_table_in_an_offline_wandb_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    table_sinks.to_wandb(COLUMNS, "train", 3)  # without a run: nothing
    run = wandb.init(dir=str(tmp_path), project="p", mode="offline")
    table_sinks.to_wandb(COLUMNS, "train", 3)
    wandb.log({})
    folder = Path(run.dir)
    wandb.finish()
    (file,) = folder.rglob("*.table.json")
    assert file.name.startswith("step_00003")
    written = json.loads(file.read_text())
    assert written["columns"] == ["step", "prompt", "score"]
    assert written["data"] == [[3, "a", 0.5], [3, '[{"role": "user", "content": "ü"}]', None]]


def test_what_trackio_is_given(monkeypatch):
    logged = []
    module = SimpleNamespace(log=logged.append, Table=lambda dataframe: dataframe)
    monkeypatch.setitem(sys.modules, "trackio", module)
    table_sinks.to_trackio(COLUMNS, "eval", 12)
    ((key, frame),) = logged[0].items()
    assert key == "completions/eval/step_00012"
    assert frame["prompt"].tolist() == ["a", '[{"role": "user", "content": "ü"}]']


def test_images_become_the_trackers_own(monkeypatch):
    logged = []
    module = SimpleNamespace(log=logged.append, Table=lambda dataframe: dataframe, Image=lambda image: f"<{image}>")
    monkeypatch.setitem(sys.modules, "trackio", module)
    table_sinks.to_trackio({"prompt": ["a", "b"], "images": [["x", "y"], []]}, "train", 1)
    (frame,) = logged[0].values()
    assert frame["images"].tolist() == [["<x>", "<y>"], []]


def test_the_upload_takes_the_tables_alone(tmp_path, monkeypatch):
    import huggingface_hub

    asked = []
    monkeypatch.setattr(huggingface_hub, "CommitScheduler", lambda **options: asked.append(options))
    trainer = make_trainer(tmp_path, log_completions=True, log_completions_hub_repo="me/tables", max_steps=1)
    trainer.train()
    (options,) = asked
    assert (options["repo_id"], options["repo_type"]) == ("me/tables", "dataset")
    assert options["allow_patterns"] == ["*.parquet"]
    assert list(Path(options["folder_path"]).glob("*.parquet"))
