"""A real sweep that is killed with SIGKILL goes on with --resume: nothing is repeated, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 600
pytestmark = pytest.mark.timeout(2 * LIMIT_S)
SWEEP = """
run = "run.toml"
output_dir = "swept"
grid = true
parallel = 2
clones = 1
[params."config.max_steps"]
choices = [3, 150]
"""


# In place of a long run: a reward that takes a second until the file `go` is there.
SLOW = """
import pathlib, time

def slow(completions, **columns):
    time.sleep(0.0 if (pathlib.Path(__file__).parent / "go").exists() else 1.0)
    return [0.0] * len(completions)
"""


@pytest.fixture
def sweep(run_folder):
    """`sweep("--resume")` starts a sweep over a short and a long run, which save a checkpoint at every second step."""
    text = (run_folder / "run.toml").read_text().replace('save_strategy = "no"', "save_steps = 2\nsave_total_limit = 2")
    text = text.replace("[config]", '[[reward]]\nname = "./slow.py:slow"\n[config]')
    (run_folder / "run.toml").write_text(text)
    (run_folder / "slow.py").write_text(SLOW)
    (run_folder / "sweep.toml").write_text(SWEEP)
    started = []

    def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "plaudit", "sweep", "sweep.toml", *arguments]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        started.append(
            subprocess.Popen(
                command,
                cwd=run_folder,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                **more,
            )
        )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    end_runs(run_folder / "swept")


def writers(folder: Path) -> list[Any]:
    from plaudit.run.sweep.processes import writers_to

    return writers_to(folder)


def end_runs(folder: Path) -> None:
    from plaudit.run.sweep.processes import end_left_over

    for number in range(3):
        end_left_over(folder / f"trial-{number}")


def wait_until(condition, process) -> None:
    began = time.monotonic()
    while not condition():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() - began < LIMIT_S
        time.sleep(0.1)


def trials_of(folder):
    path = folder / "swept" / "sweep.json"
    return json.loads(path.read_text()) if path.exists() else []


def trained_steps(folder, number):
    lines = (folder / "swept" / f"trial-{number}" / "metrics.jsonl").read_text().splitlines()
    return [line["step"] for line in map(json.loads, lines) if "reward" in line]


@pytest.mark.slow
def test_a_killed_sweep_goes_on(sweep, run_folder):
    first = sweep()
    swept = run_folder / "swept"
    wait_until(lambda: trials_of(run_folder)[0:1] and trials_of(run_folder)[0]["status"] == "finished", first)
    wait_until(lambda: checkpoints(swept, 1), first)
    first.send_signal(signal.SIGKILL)
    first.wait()
    before, log = trials_of(run_folder), (swept / "trial-0" / "log.txt").read_text()
    assert [one["status"] for one in before] == ["finished", "running"]
    again = sweep("--resume")
    begun = again.stdout.readline() + again.stdout.readline()
    (run_folder / "go").touch()
    output = begun + again.communicate(timeout=LIMIT_S)[0]
    assert again.returncode == 0, output
    assert "resumed: 1 of 2 trials have ended\ntrial 1 goes on: max_steps 150\n" in output
    after = trials_of(run_folder)
    assert [one["status"] for one in after] == ["finished"] * 3
    assert [one["params"] for one in after[:2]] == [one["params"] for one in before]
    assert after[2]["parent"] is not None
    for number, one in enumerate(after):
        assert trained_steps(run_folder, number) == list(range(1, one["params"]["config.max_steps"] + 1))
    assert (swept / "trial-0" / "log.txt").read_text() == log
    # From a checkpoint: what it prints begins with a later step.
    resumed = (swept / "trial-1" / "log.txt").read_text()
    assert "saving a checkpoint" in resumed
    assert resumed.count("step 1/150") == 1
    assert (swept / "sweep.png").stat().st_size > 10_000
    refused = sweep()
    assert "holds a sweep already" in refused.communicate(timeout=LIMIT_S)[0]
    assert refused.returncode == 2


def checkpoints(folder, number):
    return list((folder / f"trial-{number}").glob("checkpoint-*"))


def in_the_background() -> None:
    """A shell starts what it puts in the background without Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "more"),
    [(signal.SIGINT, {}), (signal.SIGINT, {"preexec_fn": in_the_background}), (signal.SIGTERM, {})],
    ids=["ctrl-c", "background", "terminated"],
)
def test_a_sweep_that_is_ended_ends_its_trials_and_says_how_to_go_on(sweep, run_folder, number, more):
    process = sweep(**more)
    wait_until(lambda: checkpoints(run_folder / "swept", 1), process)
    process.send_signal(number)
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130, output
    assert "stopped; continue with: plaudit sweep sweep.toml --resume" in output
    assert "Traceback" not in output
    assert {one["status"] for one in trials_of(run_folder)} <= {"interrupted", "finished"}
    assert not any(writers(run_folder / "swept" / f"trial-{trial}") for trial in range(2))
