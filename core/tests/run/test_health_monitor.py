"""The monitor of a run's health: from log lines to what is said; a healthy run, a resumed one, the end of one."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from plaudit.run.health import HealthMonitor, History

from .test_health import HEALTHY, NOTES, REWARDS, SICK, history_of

# `plaudit train examples/quickstart.toml`, as it logged.
QUICKSTART = [
    json.loads(line) for line in (Path(__file__).parent / "quickstart_metrics.jsonl").read_text().splitlines()
]


def monitor_of(history, said=None):
    return HealthMonitor(history, (said if said is not None else []).append)


def log(monitor, lines):
    for line in lines:
        state = SimpleNamespace(is_world_process_zero=True, global_step=len(monitor.history) + 1)
        monitor.on_log(None, state, None, line)


@pytest.mark.parametrize("name", SICK)
def test_a_sick_runs_warning_comes_from_its_log(name):
    said = []
    monitor = monitor_of(history_of([]), said)
    log(monitor, SICK[name][0])
    log(monitor, [{**HEALTHY[-1], **SICK[name][0][-1]}])
    found = next(finding for finding in monitor.findings if finding.name == name)
    assert found.level == ("note" if name in NOTES else "warning")
    assert str(found) in said
    assert f"(step {found.step}). {found.advice}" in str(found)


def test_the_quickstart_is_healthy():
    monitor = monitor_of(History(rewards={"addition": 1.0, "think_answer_format": 0.1}, rollouts=128))
    log(monitor, QUICKSTART)
    assert len(monitor.history) == 80
    assert [str(finding) for finding in monitor.findings if finding.level == "warning"] == []
    assert {finding.name for finding in monitor.findings} <= set(NOTES)


def test_a_finding_is_said_once_and_again_when_it_was_gone():
    said = []
    monitor = monitor_of(History(rewards=REWARDS, rollouts=32), said)
    log(monitor, HEALTHY[:3])
    log(monitor, [{**HEALTHY[3], "kl": 0.9}] * 5)
    assert [finding.name for finding in monitor.findings] == ["high_kl"]
    log(monitor, HEALTHY[4:])
    log(monitor, [{**HEALTHY[-1], "kl": 0.9}] * 5)
    assert [finding.name for finding in monitor.findings].count("high_kl") == 2
    assert said[0].startswith("KL to the reference is")


def test_a_run_that_goes_on_knows_what_was_said():
    said, lines = [], [{**line, "kl": 0.9, "step": step} for step, line in enumerate(HEALTHY, 1)]
    monitor = monitor_of(History(rewards=REWARDS, rollouts=32), said)
    monitor.replay(lines[:10])
    assert said == []
    log(monitor, lines[10:12])
    assert said == []
    assert [(finding.name, finding.step) for finding in monitor.findings] == [("high_kl", 3)]


GAIN = [{**HEALTHY[0], "reward": 0.01 * step} for step in range(40)]


@pytest.mark.parametrize(
    ("lines", "before", "after", "rows", "suspicious"),
    [
        (GAIN, {"reward": 0.6, "math": 0.5}, {"reward": 0.4, "math": 0.5}, 400, "held-out reward falls (-0.200)"),
        (GAIN, {"reward": 0.6, "math": 0.5}, {"reward": 0.8, "math": 0.3}, 400, "held-out mean of 'math' falls"),
        (GAIN, {"reward": 0.6, "math": 0.5}, {"reward": 0.8, "math": 0.48}, 400, None),
        (GAIN, {"reward": 0.6, "math": 0.5}, {"reward": 0.8, "math": 0.3}, 4, None),
        (GAIN, {"reward": None, "math": 0.5}, {"reward": 0.8, "math": None}, 400, None),
        (GAIN[::-1], {"reward": 0.6}, {"reward": 0.2}, 400, None),
        ([], {"reward": 0.6}, {"reward": 0.2}, 400, None),
    ],
)
def test_held_out_rows_before_and_after_are_compared(lines, before, after, rows, suspicious):
    said = []
    monitor = monitor_of(History(rewards=REWARDS, rollouts=32), said)
    log(monitor, lines)
    monitor.findings.clear()
    said.clear()
    monitor.conclude(before, after, rows)
    assert [finding.name for finding in monitor.findings] == (["reward_hacking"] if suspicious else [])
    assert suspicious is None or suspicious in said[0]


def test_other_processes_say_nothing():
    monitor = HealthMonitor(History(), pytest.fail)
    monitor.on_log(None, SimpleNamespace(is_world_process_zero=False, global_step=1), None, {"reward": 1.0})
    assert len(monitor.history) == 0
