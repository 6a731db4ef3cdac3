"""Ctrl-C in a real process: the first saves and stops, the second ends at once; the run then resumes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

LIMIT_S = 120


def start(folder: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "plaudit", "train", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", **variables}
    return subprocess.Popen(
        command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def wait_for(text: str, process: subprocess.Popen[str]) -> None:
    """Read the output up to a line with `text`."""
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"the run ended without {text!r}")


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=LIMIT_S)
    return process.returncode, output


@pytest.fixture
def running(run_folder):
    """A run of 400 steps, in its third."""
    process = start(run_folder, "run.toml", "--set", "config.max_steps=400")
    wait_for("step 1/400", process)
    yield process
    if process.poll() is None:
        process.kill()
    process.stdout.close()
    process.wait()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_saves_and_the_run_resumes_where_it_was(running, run_folder, number):
    running.send_signal(number)
    code, output = finish(running)
    (checkpoint,) = (run_folder / "run").glob("checkpoint-*")
    step = int(checkpoint.name.split("-")[1])
    assert code == 130
    assert "saving a checkpoint" in output
    assert f"stopped; the checkpoint is run/{checkpoint.name}" in output
    assert "continue with: plaudit train run/run.toml --resume" in output
    assert (checkpoint / "plaudit.lock").exists()
    code, output = finish(start(run_folder, "run/run.toml", "--resume", "--set", f"config.max_steps={step + 2}"))
    assert code == 0, output
    lines = [json.loads(line) for line in (run_folder / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "reward" in line] == list(range(1, step + 3))


def test_second_ctrl_c_ends_at_once(running, run_folder):
    running.send_signal(signal.SIGINT)
    wait_for("Press Ctrl-C again", running)
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    code, output = finish(running)
    assert code == 130
    assert time.monotonic() - began < LIMIT_S / 2
    assert output.endswith("interrupted\n")
    assert "Traceback" not in output


@pytest.mark.slow
def test_ctrl_c_on_one_of_two_ranks_stops_both_after_the_same_step(run_folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        start(run_folder, "run.toml", "--set", "config.max_steps=400", **world, RANK=str(rank), LOCAL_RANK=str(rank))
        for rank in range(2)
    ]
    wait_for("step 1/400", ranks[0])
    ranks[1].send_signal(signal.SIGINT)
    ended = [finish(rank) for rank in ranks]
    assert [code for code, _ in ended] == [130, 130]
    assert "stopped; the checkpoint is run/checkpoint-" in ended[0][1]
