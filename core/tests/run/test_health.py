"""Each check of a run's health on a history that shows its trouble, and on one that does not."""

from __future__ import annotations

import pytest
from plaudit.run.health import CHECKS, History
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
    for step, value in enumerate(heldout):
        history.add(step, {"eval_reward": value})
    history.canary.extend(enumerate(canary))
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
    "earned_reward": (
        [{**line, "rewards/math/std": 0.0, "rewards/math/mean": 1.0} for line in HEALTHY[:10]],
        "'math' is earned by every completion",
    ),
    "reward_hacking": (
        [*HEALTHY, *({"eval_reward": value} for value in (0.6, 0.6, 0.5, 0.5))],
        "while the held-out reward falls",
    ),
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


def test_every_check_has_a_sick_run():
    assert set(SICK) == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_a_healthy_run_is_left_alone(name):
    for length in (0, 1, 2, 5, 30):
        assert CHECKS[name](history_of(HEALTHY[:length])) is None


def test_a_reward_near_its_best_may_stand_still():
    lines = [{**line, "reward": 1.45, "reward_std": 0.01, "entropy": 0.01} for line in HEALTHY]
    assert {name for name in CHECKS if CHECKS[name](history_of(lines))} == set()


def test_a_reward_that_falls_by_half_is_the_learning_rates_fault():
    found = CHECKS["high_learning_rate"](history_of(with_values("reward", [0.1] * 5)))
    assert "fell from 0.495 to 0.100" in found[0]
    assert "1e-05 now" in found[1]


def test_a_rising_reward_with_a_falling_held_out_one_is_suspicious():
    found = CHECKS["reward_hacking"](history_of(HEALTHY, heldout=[0.6, 0.6, 0.5, 0.5]))
    assert "while the held-out reward falls" in found[0]
    assert CHECKS["reward_hacking"](history_of(HEALTHY, heldout=[0.5, 0.5, 0.6, 0.6])) is None


def test_a_held_out_reward_that_falls_is_named_unless_it_may_be_chance():
    rising = [{"eval_reward": 0.5 + 0.1 * n, "eval_rewards/math/mean": 0.5 - 0.1 * n} for n in range(4)]
    found = CHECKS["reward_hacking"](history_of([*HEALTHY, *rising]))
    assert "while the held-out mean of 'math' falls (-0.200)" in found[0]
    noisy = [{**line, "eval_rewards/math/std": 0.5} for line in rising]
    assert CHECKS["reward_hacking"](history_of([*HEALTHY, *noisy], heldout_rows=4)) is None
    assert CHECKS["reward_hacking"](history_of([*HEALTHY, *noisy], heldout_rows=400)) is not None
    several = [{"eval_hard_reward": 0.5 - 0.1 * n, "eval_easy_reward": 0.5} for n in range(4)]
    assert "reward of hard" in CHECKS["reward_hacking"](history_of([*HEALTHY, *several]))[0]


@pytest.mark.parametrize(("name", "value"), [("loss", float("nan")), ("grad_norm", float("inf"))])
def test_what_is_no_number_is_the_learning_rates_fault(name, value):
    found = CHECKS["high_learning_rate"](history_of([*HEALTHY[:3], {**HEALTHY[3], name: value}]))
    assert found[0].startswith(f"{name} is {value}")


def test_noise_of_small_batches_is_no_fall():
    """Rewards of four rollouts a line, 0.4 on average: now and then five bad lines follow each other."""
    import random

    draw = random.Random(0)
    lines = [{**HEALTHY[0], "reward": sum(draw.random() < 0.4 for _ in range(4)) / 4} for _ in range(300)]
    assert not any(CHECKS["high_learning_rate"](history_of(lines[:end])) for end in range(15, 300))


def test_a_reward_that_groups_without_signal_interrupt_does_not_jump():
    norms = [0.0] * 20 + [0.5, 0.0, 0.6, 0.0, 0.7]
    assert CHECKS["high_learning_rate"](history_of(with_values("grad_norm", norms))) is None


@pytest.mark.parametrize(
    "weight",
    [{"schedule": "adaptive", "start": 0.5}, 0.5, {"schedule": "linear", "start": 0.5, "end": 0.1, "steps": 9}],
)
def test_rewards_whose_weight_changes_are_watched_too(weight):
    for name in ("format_ignored", "dominant_reward"):
        history = history_of(SICK[name][0])
        history.rewards = {"math": 1.0, "xml_format": weight}
        assert CHECKS[name](history) is not None


def test_a_penalty_does_not_count_as_something_to_earn():
    lines = [{**line, "reward": 0.98, "reward_std": 0.01} for line in HEALTHY]
    history = history_of(lines)
    history.rewards = {"math": 1.0, "style": -0.5}
    assert history.best_reward() == 1.0
    assert {name for name in CHECKS if CHECKS[name](history)} == set()


def test_on_a_cpu_the_advice_is_not_vllm():
    lines = SICK["slow_steps"][0]
    assert "use_vllm" in CHECKS["slow_steps"](history_of(lines))[1]
    assert "use_vllm" not in CHECKS["slow_steps"](history_of(lines, has_gpu=False))[1]


@pytest.mark.parametrize(("score", "floor", "suspicious"), [(0.3, 0.0, True), (0.0, 0.0, False), (0.3, 0.3, False)])
def test_canary_rows_belong_at_their_floor(score, floor, suspicious):
    found = CHECKS["reward_hacking"](history_of(HEALTHY[:2], canary=[score], canary_floor=floor))
    assert (found is not None) is suspicious


def test_notes_are_checks():
    assert set(NOTES) <= set(CHECKS)
