"""Which tokens a loss looks at."""

from __future__ import annotations

import torch
from torch import Tensor

from .importance import row_length, row_sum
from .world import World


def off_policy_mask(logp: Tensor, sampled: Tensor, mask: Tensor, advantages: Tensor, threshold: float) -> Tensor:
    """(B, 1) or (B, C) of 1 and 0: drops bad rows that the policy has drifted from (DeepSeek-V3.2, arXiv 2512.02556).

    A row stays if its advantage is not negative or its mean of `sampled - logp` over active tokens is at most
    `threshold`. logp, sampled, mask: (B, C); advantages: (B, 1) or (B, C). A NaN in `sampled` says nothing.
    """
    gap = torch.nan_to_num(sampled - logp.detach(), nan=0.0)
    drift = row_sum(gap, mask) / row_length(mask)
    return ((advantages >= 0) | (drift <= threshold)).to(logp.dtype)


def top_entropy_mask(entropy: Tensor, mask: Tensor, quantile: float, world: World) -> Tensor:
    """(B, C) of 1 and 0: the `quantile` share of active tokens with the highest entropy (arXiv 2506.01939).

    The threshold is the (1 - quantile) quantile, linearly interpolated in float32, over the active tokens of this
    micro-batch on all ranks; tokens equal to it stay.
    """
    active = mask.bool()
    entropy = entropy.detach()
    everywhere = world.gather_ragged(entropy[active].float())
    if not everywhere.numel():
        return torch.zeros_like(mask)
    threshold = interpolated_quantile(everywhere, 1 - quantile)
    return ((entropy >= threshold) & active).to(mask.dtype)


def interpolated_quantile(values: Tensor, quantile: float) -> Tensor:
    """The quantile of (n,) float32 values with linear interpolation: torch.quantile, which stops at 2^24 values."""
    ordered = values.sort().values
    rank = torch.tensor(quantile, dtype=values.dtype, device=values.device) * (len(values) - 1)
    below, above = rank.floor().long(), rank.ceil().long()
    return torch.lerp(ordered[below], ordered[above], rank - below)
