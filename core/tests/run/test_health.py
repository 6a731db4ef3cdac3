"""Each check of a run's health on a history that shows its trouble, and on one that does not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from plaudit.run.health import CHECKS, HealthMonitor, History
from plaudit.run.health.checks import NOTES

REWARDS = {"math": 1.0, "xml_format": 0.5}
HEALTHY = [
    {
        "reward": 0.3 + 0.01 * step, "reward_std": 0.4, "loss": 0.01, "kl": 0.02, "entropy": 1.0 - 0.005 * step,
        "grad_norm": 0.5, "step_time": 0.4, "completions/clipped_ratio": 0.1, "rewards/unscored": 0.0,
        "rewards/math/mean": 0.2, "rewards/math/std": 0.4, "rewards/xml_format/mean": 0.6,
        "rewards/xml_format/std": 0.3,
    }
    for step in range(30)
]  # fmt: skip


def history_of(lines, *, heldout=(), canary=(), **more):
    history = History(rewards=REWARDS, rollouts=32, learning_rate=1e-5, **more)
    for step, line in enumerate(lines, 1):
        history.add(step, line)
    for kept, points in ((history.heldout, heldout), (history.canary, canary)):
        kept.extend(enumerate(points))
    return history


def with_values(name, values):
    """The healthy lines, with the newest values of one metric replaced."""
    lines = [dict(line) for line in HEALTHY]
    for line, value in zip(lines[-len(values) :], values, strict=True):
        line[name] = value
    return lines


SICK = {
    "reward_std": (with_values("reward_std", [0.05] * 3), "hardly differ"),
    "reward_stuck": (with_values("reward", [0.3] * 20), "has not moved"),
    "format_ignored": (with_values("rewards/xml_format/mean", [0.01] * 10), "'xml_format' is 0.010"),
    "slow_steps": (with_values("step_time", [4.0] * 3), "takes 4.0 s"),
    "rising_loss": ([{**HEALTHY[0], "loss": value} for value in (0.0, 0.01, 0.03)], "that is normal"),
    "high_kl": (with_values("kl", [0.8] * 3), "KL to the reference is 0.80"),
    "entropy_collapse": (with_values("entropy", [0.05] * 3), "entropy fell from 1.000 to 0.050"),
    "clipped_completions": (with_values("completions/clipped_ratio", [0.9] * 3), "90% of the completions"),
    "dominant_reward": (with_values("rewards/xml_format/std", [0.001] * 3), "'math' makes up"),
    "constant_reward": (with_values("rewards/math/std", [0.0] * 10), "'math' never varies"),
    "high_learning_rate": (with_values("grad_norm", [20.0]), "the gradient norm jumped to 20"),
    "unscored": (with_values("rewards/unscored", [16.0] * 3), "50% of the rollouts have no score"),
}


@pytest.mark.parametrize("name", SICK)
def test_a_sick_run_is_found_out(name):
    lines, says = SICK[name]
    found = CHECKS[name](history_of(lines))
    assert found is not None
    assert says in found[0]
    assert len(found[1]) > 20


@pytest.mark.parametrize("name", CHECKS)
def test_a_healthy_run_is_left_alone(name):
    for length in (0, 1, 2, 5, 30):
        assert CHECKS[name](history_of(HEALTHY[:length])) is None


def test_a_reward_near_its_best_may_stand_still():
    lines = [{**line, "reward": 1.45, "reward_std": 0.01, "entropy": 0.01} for line in HEALTHY]
    assert {name for name in CHECKS if CHECKS[name](history_of(lines))} == set()


def test_a_reward_that_falls_by_half_is_the_learning_rates_fault():
    found = CHECKS["high_learning_rate"](history_of(with_values("reward", [0.1, 0.1, 0.1])))
    assert "fell from" in found[0]
    assert "1e-05 now" in found[1]


def test_a_rising_reward_with_a_falling_held_out_one_is_suspicious():
    found = CHECKS["reward_hacking"](history_of(HEALTHY, heldout=[0.6, 0.6, 0.5, 0.5]))
    assert "while the held-out reward falls" in found[0]
    assert CHECKS["reward_hacking"](history_of(HEALTHY, heldout=[0.5, 0.5, 0.6, 0.6])) is None


@pytest.mark.parametrize(("score", "floor", "suspicious"), [(0.3, 0.0, True), (0.0, 0.0, False), (0.3, 0.3, False)])
def test_canary_rows_belong_at_their_floor(score, floor, suspicious):
    found = CHECKS["reward_hacking"](history_of(HEALTHY[:2], canary=[score], canary_floor=floor))
    assert (found is not None) is suspicious


def test_a_finding_is_said_once_and_again_when_it_was_gone():
    said = []
    monitor = HealthMonitor(History(rewards=REWARDS, rollouts=32), said.append)

    def log(lines):
        for line in lines:
            state = SimpleNamespace(is_world_process_zero=True, global_step=len(monitor.history) + 1)
            monitor.on_log(None, state, None, line)

    log(HEALTHY[:3])
    log([{**HEALTHY[3], "kl": 0.9}] * 5)
    assert [finding.name for finding in monitor.findings] == ["high_kl"]
    log(HEALTHY[4:])
    log([{**HEALTHY[-1], "kl": 0.9}] * 5)
    assert [finding.name for finding in monitor.findings].count("high_kl") == 2
    assert said[0].startswith("KL to the reference is")


def test_other_processes_say_nothing():
    monitor = HealthMonitor(History(), pytest.fail)
    monitor.on_log(None, SimpleNamespace(is_world_process_zero=False, global_step=1), None, {"reward": 1.0})
    assert len(monitor.history) == 0


def test_notes_are_checks():
    assert set(NOTES) <= set(CHECKS)
