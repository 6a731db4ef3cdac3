"""Which tokens a loss looks at."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from .importance import row_length, row_sum
from .world import World


def truncated_rows(completion_ids: Sequence[Sequence[int]], stop_ids: Collection[int]) -> list[bool]:
    """Whether each completion was cut off: its last token is none of `stop_ids` (end-of-sequence and padding tokens).

    An empty completion was not cut off.
    """
    return [bool(ids) and ids[-1] not in stop_ids for ids in completion_ids]


def mask_truncated(mask: Tensor, truncated: Sequence[bool]) -> Tensor:
    """(B, C) mask with the rows of truncated completions set to 0 (DAPO's overlong filtering, arXiv 2503.14476)."""
    rows = torch.tensor(truncated, dtype=torch.bool, device=mask.device)
    return mask.masked_fill(rows.unsqueeze(1), 0)


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
    threshold = torch.quantile(everywhere, 1 - quantile)
    return ((entropy >= threshold) & active).to(mask.dtype)
