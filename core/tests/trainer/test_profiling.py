"""Times go to the trackers that have a run open, under TRL's names, and nowhere else."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

from runs import make_trainer, metrics_of


class Tracker:
    __spec__ = ModuleSpec("wandb", None)

    def __init__(self, open_run):
        self.run, self.logged = object() if open_run else None, []

    def log(self, metrics):
        self.logged.append(metrics)


def times_of(tracker, tmp_path, monkeypatch):
    """Train two steps with this stand-in for wandb; what it was told."""
    trainer = make_trainer(tmp_path)
    monkeypatch.setitem(sys.modules, "wandb", tracker)
    trainer.args.report_to = ["wandb"]
    trainer.start_recording()
    trainer.train()
    return tracker.logged


def test_an_open_tracker_gets_the_times_of_each_micro_batch(tmp_path, monkeypatch):
    logged = times_of(Tracker(open_run=True), tmp_path, monkeypatch)
    names = [name for metrics in logged for name in metrics]
    expected = [f"profiling/Time taken: GRPOTrainer.{name}" for name in ("_prepare_inputs", "compute_loss")]
    assert names == expected * 2
    assert all(0 < seconds < 100 for metrics in logged for seconds in metrics.values())
    assert not any("profiling" in name for line in metrics_of(tmp_path) for name in line)


def test_a_tracker_without_a_run_gets_nothing(tmp_path, monkeypatch):
    assert times_of(Tracker(open_run=False), tmp_path, monkeypatch) == []


def test_without_a_tracker_nothing_is_measured(tmp_path):
    trainer = make_trainer(tmp_path)
    assert "compute_loss" not in vars(trainer)
