"""All checks of a run's health: each looks at the history and says what is wrong and what to do, or nothing."""

from __future__ import annotations

from . import of_rewards, of_training
from .finding import Check

CHECKS: dict[str, Check] = {
    "reward_std": of_rewards.reward_std,
    "reward_stuck": of_rewards.reward_stuck,
    "format_ignored": of_rewards.format_ignored,
    "slow_steps": of_training.slow_steps,
    "rising_loss": of_training.rising_loss,
    "high_kl": of_training.high_kl,
    "entropy_collapse": of_training.entropy_collapse,
    "clipped_completions": of_training.clipped_completions,
    "dominant_reward": of_rewards.dominant_reward,
    "constant_reward": of_rewards.constant_reward,
    "earned_reward": of_rewards.earned_reward,
    "reward_hacking": of_rewards.reward_hacking,
    "high_learning_rate": of_training.high_learning_rate,
    "unscored": of_rewards.unscored,
}
NOTES = ("rising_loss", "earned_reward")
"""Checks whose finding is nothing to mend."""
