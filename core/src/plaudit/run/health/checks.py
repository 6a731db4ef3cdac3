"""The checks of a run's health: each looks at the history and says what is wrong and what to do, or nothing.

Thresholds: those that practice names for GRPO (reward std above 0.1, KL below 0.5), the rest are said where they stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .history import History, trend_of

WINDOW = 10
LOW_STD, HIGH_KL, LOW_FORMAT, CLIPPED, DOMINANT = 0.1, 0.5, 0.1, 0.5, 0.95
COLLAPSED_ENTROPY, COLLAPSED_SHARE = 0.02, 0.1
GRADIENT_JUMP, UNSCORED_SHARE = 10.0, 0.2
CANARY_SLACK, HELDOUT_FALL = 0.02, 0.02


@dataclass(frozen=True, slots=True)
class Finding:
    """`name`: of the check. `level`: "warning", or "note" for what is normal but looks odd."""

    name: str
    message: str
    advice: str
    step: int = 0
    level: str = "warning"

    def __str__(self) -> str:
        return f"{self.message} (step {self.step}). {self.advice}"


Check = Callable[[History], tuple[str, str] | None]


def reward_std(history: History) -> tuple[str, str] | None:
    spread, reward = history.mean("reward_std", 3), history.latest("reward")
    best = sum(abs(weight) for weight in history.rewards.values())
    if spread is None or reward is None or spread >= LOW_STD or (best and reward > 0.9 * best):
        return None
    return (
        f"reward_std is {spread:.3f}: completions hardly differ in reward, so there is little to learn from",
        "Raise num_generations or temperature, add a reward that gives partial credit, or choose other rows "
        '(row_sampling = "spread").',
    )


def reward_stuck(history: History) -> tuple[str, str] | None:
    change, values = history.trend("reward", 2 * WINDOW), history.values("reward", 2 * WINDOW)
    best = sum(abs(weight) for weight in history.rewards.values())
    if change is None or abs(change) > 0.01 * max(best, 1e-6) or (best and values[-1] > 0.9 * best):
        return None
    return (
        f"the reward has not moved over {2 * WINDOW} log lines ({values[0]:.3f} to {values[-1]:.3f})",
        "Score some completions by hand with `plaudit try`, check that the base model is right at least sometimes, "
        "then raise the learning rate.",
    )


def format_ignored(history: History) -> tuple[str, str] | None:
    for name in history.rewards:
        mean = history.mean(f"rewards/{name}/mean", WINDOW)
        if "format" in name and mean is not None and mean < LOW_FORMAT:
            return (
                f"reward '{name}' is {mean:.3f}: the format is ignored",
                "Raise its weight, use incremental_format for partial credit, or show an example in the system prompt.",
            )
    return None


def slow_steps(history: History) -> tuple[str, str] | None:
    seconds = history.mean("step_time", 3)
    if seconds is None or seconds <= 1:
        return None
    return (
        f"a step takes {seconds:.1f} s",
        ("" if history.uses_vllm else "Generate with vLLM (use_vllm = true). ")
        + "Shorten max_completion_length, or see whether rewards wait (scoring/ metrics).",
    )


def rising_loss(history: History) -> tuple[str, str] | None:
    losses = history.values("loss")
    if len(losses) < 3 or abs(losses[0]) > 0.05 or losses[-1] <= max(2 * abs(losses[0]), 1e-3):
        return None
    return (
        f"the loss rose from {losses[0]:.4f} to {losses[-1]:.4f}; that is normal",
        "It begins near 0 and grows as the policy moves away from where it was. Watch the reward, not the loss.",
    )


def high_kl(history: History) -> tuple[str, str] | None:
    kl = history.mean("kl", 3)
    if kl is None or kl <= HIGH_KL:
        return None
    return (
        f"KL to the reference is {kl:.2f}: the policy moves far away",
        "Lower the learning rate, raise beta, or clip harder (epsilon).",
    )


def entropy_collapse(history: History) -> tuple[str, str] | None:
    values = history.values("entropy")
    if len(values) < 3 or values[0] <= 0:
        return None
    now = sum(values[-3:]) / 3
    if now > COLLAPSED_SHARE * values[0] and (now > COLLAPSED_ENTROPY or now > 0.5 * values[0]):
        return None
    reward = history.latest("reward")
    best = sum(abs(weight) for weight in history.rewards.values())
    if reward is not None and best and reward > 0.9 * best:
        return None
    return (
        f"entropy fell from {values[0]:.3f} to {now:.3f} nats: completions become all the same",
        "Raise temperature, entropy_coef or epsilon_high, or lower the learning rate.",
    )


def clipped_completions(history: History) -> tuple[str, str] | None:
    share = history.mean("completions/clipped_ratio", 3)
    if share is None or share <= CLIPPED:
        return None
    return (
        f"{share:.0%} of the completions are cut off at max_completion_length",
        "Raise max_completion_length, add soft_overlong, or check that the model knows its end-of-sequence token.",
    )


def dominant_reward(history: History) -> tuple[str, str] | None:
    spreads = {
        name: abs(weight) * spread
        for name, weight in history.rewards.items()
        if weight and (spread := history.mean(f"rewards/{name}/std", 3)) is not None
    }
    total = sum(spreads.values())
    if len(spreads) < 2 or not total:
        return None
    name, most = max(spreads.items(), key=lambda entry: entry[1])
    if most / total < DOMINANT:
        return None
    return (
        f"reward '{name}' makes up {most / total:.0%} of what differs; the others hardly count",
        'Change the weights, or set multi_objective_aggregation = "normalize_then_sum".',
    )


def constant_reward(history: History) -> tuple[str, str] | None:
    for name in history.rewards:
        spreads = history.values(f"rewards/{name}/std", WINDOW)
        if len(spreads) == WINDOW and max(spreads) == 0:
            mean = history.latest(f"rewards/{name}/mean") or 0.0
            earned = "Every completion earns it, so it teaches nothing any more; that is well if it should be so."
            missed = "It teaches nothing. Check its reference column and options with `plaudit try`, or drop it."
            return (
                f"reward '{name}' never varies: it is {mean:.3g} for every completion",
                earned if mean > 0 else missed,
            )
    return None


def reward_hacking(history: History) -> tuple[str, str] | None:
    if history.canary and history.canary[-1][1] > history.canary_floor + CANARY_SLACK:
        return (
            f"canary rows, which nothing can answer, score {history.canary[-1][1]:.3f}; they belong at "
            f"{history.canary_floor:g}",
            "A reward is being gamed. Read the canary's completions, and mend that verifier before going on.",
        )
    up, falling = history.trend("reward", 2 * WINDOW), trend_of(history.heldout, 4)
    if up is None or up <= 0 or falling is None or falling >= -HELDOUT_FALL:
        return None
    return (
        f"the training reward rises (+{up:.3f}) while the held-out reward falls ({falling:.3f})",
        "The policy may be gaming a reward. Read completions of high reward; run `plaudit audit` on the verifier.",
    )


def high_learning_rate(history: History) -> tuple[str, str] | None:
    norm, usual = history.latest("grad_norm"), history.usual("grad_norm")
    jumped = norm is not None and usual is not None and usual > 0 and norm > GRADIENT_JUMP * usual and len(history) > 5
    rewards = history.values("reward")
    best = max(rewards, default=0.0)
    fell = len(rewards) > WINDOW and best > 0 and max(rewards[-3:]) < 0.5 * best
    if not (jumped or fell):
        return None
    what = (
        f"the gradient norm jumped to {norm:.3g}" if jumped else f"the reward fell from {best:.3f} to {rewards[-1]:.3f}"
    )
    rate = "" if history.learning_rate is None else f" ({history.learning_rate:g} now)"
    return f"{what}: the learning rate may be too high", f"Halve learning_rate{rate}, or lower max_grad_norm to 0.1."


def unscored(history: History) -> tuple[str, str] | None:
    lost = history.mean("rewards/unscored", 3)
    if lost is None or not history.rollouts or lost / history.rollouts <= UNSCORED_SHARE:
        return None
    return (
        f"{lost / history.rollouts:.0%} of the rollouts have no score at all",
        "See the failures in the completions table: a reward fails, times out or finds no reference.",
    )


CHECKS: dict[str, Check] = {
    "reward_std": reward_std,
    "reward_stuck": reward_stuck,
    "format_ignored": format_ignored,
    "slow_steps": slow_steps,
    "rising_loss": rising_loss,
    "high_kl": high_kl,
    "entropy_collapse": entropy_collapse,
    "clipped_completions": clipped_completions,
    "dominant_reward": dominant_reward,
    "constant_reward": constant_reward,
    "reward_hacking": reward_hacking,
    "high_learning_rate": high_learning_rate,
    "unscored": unscored,
}
NOTES = ("rising_loss",)
"""Checks whose finding is nothing to mend."""
