"""Checks of what a run is paid for.

Thresholds: reward std above 0.1 is what practice names for GRPO; the rest are said where they stand.
"""

from __future__ import annotations

from statistics import fmean

from .history import History, trend_of

WINDOW = 10
LOW_STD, LOW_FORMAT, DOMINANT, UNSCORED_SHARE = 0.1, 0.1, 0.95, 0.2
SATURATED = 0.9
"""A mean score from which on a reward that hardly varies has been learnt."""
CANARY_SLACK, HELDOUT_FALL = 0.02, 0.02


def reward_std(history: History) -> tuple[str, str] | None:
    spread = history.mean("reward_std", 3)
    if spread is None or spread >= LOW_STD or history.near_best():
        return None
    return (
        f"reward_std is {spread:.3f}: completions hardly differ in reward, so there is little to learn from",
        "Raise num_generations or temperature, add a reward that gives partial credit, or choose other rows "
        '(row_sampling = "spread").',
    )


def reward_stuck(history: History) -> tuple[str, str] | None:
    change, values = history.trend("reward", 2 * WINDOW), history.values("reward", 2 * WINDOW)
    if change is None or abs(change) > 0.01 * max(history.best_reward(), 1e-6) or history.near_best():
        return None
    return (
        f"the reward has not moved over {2 * WINDOW} log lines: {fmean(values[:WINDOW]):.3f} on average, then "
        f"{fmean(values[WINDOW:]):.3f}",
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


def dominant_reward(history: History) -> tuple[str, str] | None:
    spreads = {
        name: abs(weight) * spread
        for name, weight in history.weights().items()
        if weight and (spread := history.mean(f"rewards/{name}/std", 3)) is not None and not _learnt(history, name)
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
    found = [name for name in _constant(history) if not _learnt(history, name)]
    if not found:
        return None
    mean = history.latest(f"rewards/{found[0]}/mean") or 0.0
    return (
        f"reward '{found[0]}' never varies: it is {mean:.3g} for every completion",
        "It teaches nothing. Check its reference column and options with `plaudit try`, or drop it.",
    )


def earned_reward(history: History) -> tuple[str, str] | None:
    found = [name for name in _constant(history) if _learnt(history, name)]
    if not found:
        return None
    return (
        f"reward '{found[0]}' is earned by every completion",
        "It teaches nothing any more, which is well if the completions deserve it: read some.",
    )


def reward_hacking(history: History) -> tuple[str, str] | None:
    if history.canary and history.canary[-1][1] > history.canary_floor + CANARY_SLACK:
        return (
            f"canary rows, which nothing can answer, score {history.canary[-1][1]:.3f}; they belong at "
            f"{history.canary_floor:g}",
            "A reward is being gamed. Read canary.jsonl in the run folder, and mend that verifier before going on.",
        )
    up = history.trend("reward", 2 * WINDOW)
    if up is None or up <= 0:
        return None
    for name, points in history.heldout.items():
        falling = trend_of(points, 4)
        if falling is not None and -falling > max(HELDOUT_FALL, history.heldout_noise(name)):
            return hacking_suspected(up, name, falling)
    return None


def hacking_suspected(up: float, name: str, falling: float) -> tuple[str, str]:
    """What is said when training gains and a held-out mean loses. `name`: "reward", or a reward's name."""
    what = "reward" if name == "reward" else f"mean of '{name}'"
    return (
        f"the training reward rises (+{up:.3f}) while the held-out {what} falls ({falling:.3f})",
        "The policy may be gaming a reward. Read completions of high reward; run `plaudit audit` on the verifier.",
    )


def unscored(history: History) -> tuple[str, str] | None:
    lost = history.mean("rewards/unscored", 3)
    if lost is None or not history.rollouts or lost / history.rollouts <= UNSCORED_SHARE:
        return None
    return (
        f"{lost / history.rollouts:.0%} of the rollouts have no score at all",
        "See the failures in the completions table: a reward fails, times out or finds no reference.",
    )


def _constant(history: History) -> list[str]:
    """Rewards that gave one score alone over the window."""
    found = []
    for name in history.rewards:
        spreads = history.values(f"rewards/{name}/std", WINDOW)
        means = history.values(f"rewards/{name}/mean", WINDOW)
        if len(spreads) == WINDOW and max(spreads) == 0 and max(means) == min(means):
            found.append(name)
    return found


def _learnt(history: History, name: str) -> bool:
    mean, spread = history.mean(f"rewards/{name}/mean", 3), history.mean(f"rewards/{name}/std", 3)
    return mean is not None and mean >= SATURATED and (spread or 0.0) < 0.5 * mean
