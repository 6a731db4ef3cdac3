"""The examples learn: the quickstart and its two tasks, shortened."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from plaudit.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


def means(folder: Path, example: str, *changes: str) -> dict[str, dict[str, float]]:
    """Train an example in `folder`; mean scores before and after, by reward."""
    command = ["train", str(EXAMPLES / example), "--set", "output_dir=run", "--set", "config.log_completions=false"]
    assert main([*command, *(part for change in changes for part in ("--set", change))]) == 0
    heldout = json.loads((folder / "run" / "heldout.json").read_text(encoding="utf-8"))
    return {when: heldout[when]["means"] for when in ("before", "after")}


def test_the_quickstart_learns_addition(run_folder, capsys):
    found = means(run_folder, "quickstart.toml", "config.max_steps=30", "data.eval_size=128")
    assert found["before"]["addition"] < 0.5
    assert found["after"]["addition"] > found["before"]["addition"] + 0.3


@pytest.mark.slow
def test_the_whole_quickstart_reaches_95_percent(run_folder, capsys):
    assert means(run_folder, "quickstart.toml")["after"]["addition"] >= 0.95


@pytest.mark.slow
def test_two_tasks_are_both_learnt(run_folder, capsys):
    found = means(run_folder, "quickstart_two_tasks.toml")
    for task in ("addition", "larger"):
        assert found["after"][task] >= 0.9
        assert found["after"][task] > found["before"][task] + 0.2
