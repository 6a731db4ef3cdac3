"""Checks of how a run trains: its speed, loss, gradients, entropy, lengths.

Thresholds: KL below 0.5 and a step a second are what practice names for GRPO; the rest are said where they stand.
"""

from __future__ import annotations

import math

from .history import History

HIGH_KL, CLIPPED, SLOW_S = 0.5, 0.5, 1.0
COLLAPSED_ENTROPY, COLLAPSED_SHARE = 0.02, 0.1
GRADIENT_JUMP = 10.0
BEST_LINES, NEWEST_LINES = 10, 5
"""Lines over which the reward is averaged before it is said to have fallen."""


def slow_steps(history: History) -> tuple[str, str] | None:
    seconds = history.mean("step_time", 3)
    if seconds is None or seconds <= SLOW_S:
        return None
    faster = [
        "" if history.uses_vllm or not history.has_gpu else "Generate with vLLM (use_vllm = true). ",
        "" if history.has_gpu else "It trains on the CPU: use a GPU if there is one. ",
        "Shorten max_completion_length, or see whether rewards wait (scoring/wait_s).",
    ]
    return f"a step takes {seconds:.1f} s", "".join(faster)


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
    # A policy that is right may be sure of itself.
    if history.near_best():
        return None
    return (
        f"entropy fell from {values[0]:.3f} to {now:.3f} nats: completions become all the same",
        "Raise temperature, num_generations, entropy_coef or epsilon_high, add a diversity reward, or lower the "
        "learning rate.",
    )


def clipped_completions(history: History) -> tuple[str, str] | None:
    share = history.mean("completions/clipped_ratio", 3)
    if share is None or share <= CLIPPED:
        return None
    return (
        f"{share:.0%} of the completions are cut off at max_completion_length",
        "Raise max_completion_length, add soft_overlong, or check that the model knows its end-of-sequence token.",
    )


def high_learning_rate(history: History) -> tuple[str, str] | None:
    what = _not_finite(history) or _gradient_jump(history) or _reward_fall(history)
    if what is None:
        return None
    rate = "" if history.learning_rate is None else f" ({history.learning_rate:g} now)"
    return f"{what}: the learning rate may be too high", f"Halve learning_rate{rate}, or lower max_grad_norm to 0.1."


def _not_finite(history: History) -> str | None:
    newest = history.lines[-1] if history.lines else {}
    for name in ("loss", "grad_norm"):
        value = newest.get(name)
        if isinstance(value, (int, float)) and not math.isfinite(value):
            return f"{name} is {value}"
    return None


def _gradient_jump(history: History) -> str | None:
    norm, usual = history.latest("grad_norm"), history.usual("grad_norm")
    if norm is None or usual is None or len(history) <= 5 or norm <= GRADIENT_JUMP * usual:
        return None
    return f"the gradient norm jumped to {norm:.3g} from {usual:.3g}"


def _reward_fall(history: History) -> str | None:
    """By half from its best, and by more than what lines differ by chance."""
    values = history.values("reward")
    if len(values) < BEST_LINES + NEWEST_LINES:
        return None
    best = max(sum(values[i : i + BEST_LINES]) / BEST_LINES for i in range(len(values) - BEST_LINES + 1))
    now = sum(values[-NEWEST_LINES:]) / NEWEST_LINES
    if best <= 0 or now >= 0.5 * best or best - now <= 4 * history.noise("reward") / NEWEST_LINES**0.5:
        return None
    return f"the reward fell from {best:.3f} to {now:.3f}"
