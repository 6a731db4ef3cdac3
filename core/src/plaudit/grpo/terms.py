"""The per-token loss of each family, as functions of (inputs, ratio, options).

inputs: prepared `LossInputs`; ratio: the policy's importance ratio, (B, C) or (B, 1). Each returns a `Term`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .importance import row_sum
from .records import LossInputs, LossOptions, Term
from .statistics import row_extreme, token_mean

_LOG_LEAST = math.log(1e-8)
_LOG_MOST = 20.0


def clipped(inputs: LossInputs, ratio: Tensor, options: LossOptions) -> Term:
    """PPO's pessimistic clipped ratio (GRPO, arXiv 2402.03300); `delta` also caps it from above (arXiv 2505.07291)."""
    low, high = 1 - options.epsilon, 1 + options.epsilon_high
    within = ratio.clamp(low, high)
    capped = ratio if options.delta is None else ratio.clamp(max=options.delta)
    loss = -torch.min(capped * inputs.advantages, within * inputs.advantages)
    is_low = ((capped < low) & (inputs.advantages < 0)).to(ratio.dtype)
    is_high = ((capped > high) & (inputs.advantages > 0)).to(ratio.dtype)
    statistics = {
        "clip_ratio/low_mean": token_mean(is_low, inputs.mask),
        "clip_ratio/low_min": row_extreme("min", is_low, inputs.mask),
        "clip_ratio/high_mean": token_mean(is_high, inputs.mask),
        "clip_ratio/high_max": row_extreme("max", is_high, inputs.mask),
        "clip_ratio/region_mean": token_mean(is_low + is_high, inputs.mask),
    }
    return Term(loss, statistics)


def cispo(inputs: LossInputs, ratio: Tensor, options: LossOptions) -> Term:
    """REINFORCE weighted by the ratio, capped at `epsilon_high` itself, no gradient (MiniMax-M1, arXiv 2506.13585)."""
    weight = ratio.detach().clamp(max=options.epsilon_high)
    is_clipped = ((ratio > options.epsilon_high) & (inputs.advantages > 0)).to(ratio.dtype)
    return Term(
        -weight * inputs.advantages * inputs.logp,
        {"cispo_clip_ratio": token_mean(is_clipped, inputs.mask)},
    )


def sapo(inputs: LossInputs, ratio: Tensor, options: LossOptions) -> Term:
    """A sigmoid gate in place of the clip, with a temperature for each sign of the advantage (arXiv 2511.20347)."""
    temperature = _by_sign(inputs.advantages > 0, options.sapo_temperature_pos, options.sapo_temperature_neg).to(ratio)
    gate = torch.sigmoid(temperature * (ratio - 1)) * 4 / temperature
    return Term(-gate * inputs.advantages)


def vespo(inputs: LossInputs, ratio: Tensor, options: LossOptions) -> Term:
    """REINFORCE weighted by a gamma-shaped function of the sequence's ratio, without gradient (arXiv 2602.10693).

    The sampler's ratio enters that weight, over every position, not the loss.
    """
    weight = vespo_weight(inputs, options)
    statistics = {"vespo/phi_seq_mean": token_mean(weight, inputs.mask, inputs.ran)}
    return Term(-weight * inputs.advantages * inputs.logp, statistics)


@torch.no_grad()
def vespo_weight(inputs: LossInputs, options: LossOptions) -> Tensor:
    """phi(W) = exp(lambda) W^k exp(-lambda W), (B, 1), with W the product of the sequence's ratios; phi(1) = 1."""
    assert inputs.old is not None
    log_weight = row_sum((inputs.logp - inputs.old).clamp(-_LOG_MOST, _LOG_MOST), inputs.mask)
    if inputs.sampler_ratio is not None:
        log_weight = log_weight + inputs.sampler_ratio.log().clamp(_LOG_LEAST, _LOG_MOST).sum(-1, keepdim=True)
    log_weight = log_weight.clamp(_LOG_LEAST, _LOG_MOST)
    good = inputs.advantages >= 0
    k = _by_sign(good, options.vespo_k_pos, options.vespo_k_neg)
    rate = _by_sign(good, options.vespo_lambda_pos, options.vespo_lambda_neg).clamp(min=1e-4)
    weight = (rate + k * log_weight - rate * log_weight.exp()).exp()
    return torch.where(weight.isfinite(), weight, 0.0)


def _by_sign(positive: Tensor, if_positive: float, otherwise: float) -> Tensor:
    """A float32 constant for each row. TRL rounds these to float32, and the golden vectors show it."""
    values = torch.tensor([otherwise, if_positive], dtype=torch.float32, device=positive.device)
    return values[positive.long()]
