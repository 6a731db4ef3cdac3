"""A small run file on the quickstart model, which the tests of this folder change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

RUN = """
output_dir = "run"
[model]
path = "quickstart"
[data]
name = "quickstart:addition"
options = {size = 32}
[[reward]]
name = "addition"
[config]
num_generations = 4
per_device_train_batch_size = 16
max_completion_length = 40
learning_rate = 2e-4
max_steps = 2
logging_steps = 1
save_strategy = "no"
use_cpu = true
"""


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `run.toml`: 4 prompts × 4 completions, 2 steps."""
    (tmp_path / "run.toml").write_text(RUN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


@pytest.fixture
def train(run_folder: Path) -> Callable[..., int]:
    """`train("model.path=x", "--dry-run")`: `plaudit train run.toml` in this process; returns the exit code."""
    from plaudit.cli import main

    def call(*arguments: str) -> int:
        flags = [argument for argument in arguments if argument.startswith("--")]
        changes = [part for argument in arguments if not argument.startswith("--") for part in ("--set", argument)]
        return main(["train", "run.toml", *flags, *changes])

    return call
