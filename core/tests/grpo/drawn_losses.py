"""Random inputs and options of a loss."""

from __future__ import annotations

import torch
from plaudit.grpo import LossOptions

ROWS, TOKENS = 5, 7


def draw_inputs(dice, settings):
    shape = (ROWS, settings["tokens"])
    noise = torch.Generator().manual_seed(dice.randrange(10**6))

    def normal(scale):
        return torch.randn(shape, generator=noise, dtype=torch.float64) * scale

    logp = -normal(1.0).abs()
    mask = (torch.rand(shape, generator=noise) > 0.3).long()
    mask[0] = 0
    mask[1] = 1
    advantages = torch.randn(ROWS, generator=noise, dtype=torch.float64)
    advantages[2] = 0.0
    old = logp + normal(0.4)
    sampled = old + normal(0.2)
    sampled[1, 0] = torch.nan
    ratio = torch.exp(normal(0.3)) * mask + (1 - mask)
    ratio[1, :2] = 0.0
    # Rounded, so that several tokens share the threshold of the quantile.
    entropy = (normal(1.0).abs() * 4).round() / 4
    if settings["advantages_per_token"]:
        advantages = normal(1.0)
    return {
        "logp": logp,
        "mask": mask,
        "advantages": advantages,
        "old": None if settings["on_policy"] else old,
        "ref": logp + normal(0.3),
        "sampled": sampled if settings["sampler"] else None,
        "entropy": entropy,
        "ratio": (ratio[:, :1] if settings["ratio_of_sequence"] else ratio) if settings["sampler"] else None,
    }


def draw_settings(dice):
    training = dice.random() < 0.8
    return {
        "training": training,
        "steps_per_generation": dice.choice([1, 2, 4]),
        "accumulation": dice.choice([1, 2, 3]),
        "max_completion_length": dice.choice([7, 16]),
        "sampler": dice.random() < 0.4,
        "ratio_of_sequence": dice.random() < 0.5,
        "on_policy": dice.random() < 0.2,
        "advantages_per_token": dice.random() < 0.15,
        "tokens": dice.choice([TOKENS, TOKENS, 1]),
        "entropy_coef": dice.choice([0.0, 0.03]),
        "adaptive": False,
        "controller": {},
    }


def draw_options(dice, loss_type, level, settings):
    return LossOptions(
        loss_type=loss_type,
        importance_sampling_level=level,
        epsilon=dice.choice([0.1, 0.2]),
        epsilon_high=dice.choice([0.28, 5.0]) if loss_type == "cispo" else dice.choice([0.2, 0.28]),
        delta=dice.choice([None, 1.3]),
        beta=dice.choice([0.0, 0.1]),
        use_bias_correction_kl=dice.random() < 0.5,
        sapo_temperature_pos=dice.choice([1.0, 0.7]),
        sapo_temperature_neg=dice.choice([1.05, 1.3]),
        vespo_k_pos=dice.choice([2.0, 1.7]),
        vespo_lambda_pos=dice.choice([3.0, 0.0]),
        vespo_k_neg=dice.choice([3.0, 2.1]),
        vespo_lambda_neg=dice.choice([2.0, 1.1]),
        off_policy_mask_threshold=dice.choice([None, 0.05]),
        top_entropy_quantile=dice.choice([1.0, 0.5, 0.2]),
        entropy_bonus=settings["entropy_coef"] != 0,
    )
