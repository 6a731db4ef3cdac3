"""Importance ratios: of the policy to its old self, and of the old policy to the engine that sampled."""

from __future__ import annotations

import torch
from torch import Tensor

from .statistics import Statistic, extreme

SAMPLER_MODES = ("token_truncate", "token_mask", "sequence_truncate", "sequence_mask")
LEVELS = ("token", "sequence")


def policy_ratio(logp: Tensor, old: Tensor, mask: Tensor, level: str) -> Tensor:
    """The policy over the old policy: (B, C) at token level, (B, 1) at sequence level (GSPO, arXiv 2507.18071).

    The sequence ratio is the geometric mean over active tokens. Raises ValueError on another level.
    """
    log_ratio = logp - old
    if level == "token":
        return log_ratio.exp()
    if level == "sequence":
        return (row_sum(log_ratio, mask) / row_length(mask)).exp()
    raise ValueError(f"unknown importance_sampling_level {level!r}: choose one of {', '.join(LEVELS)}.")


def sampler_ratio(
    old: Tensor,
    sampled: Tensor,
    mask: Tensor,
    *,
    mode: str,
    clip_min: float | None,
    clip_max: float | None,
    geometric: bool = False,
) -> Tensor:
    """The trained policy over the engine that sampled, within bounds.

    old, sampled, mask: (B, C). Returns (B, C) in token modes, (B, 1) in sequence modes: the product over active tokens,
    or, if `geometric`, their geometric mean, which does not grow with length (as GSPO's ratio, arXiv 2507.18071). A NaN
    (the engine gave no log-prob) counts as ratio 1. `*_truncate` clips to the bounds, `*_mask` makes ratios outside
    them 0; None = no bound. Raises ValueError on another mode.
    """
    if mode not in SAMPLER_MODES:
        raise ValueError(f"unknown vllm_importance_sampling_mode {mode!r}: choose one of {', '.join(SAMPLER_MODES)}.")
    level, action = mode.split("_")
    log_ratio = torch.nan_to_num((old - sampled) * mask, nan=0.0)
    if level == "sequence":
        log_ratio = log_ratio.sum(-1, keepdim=True) / (row_length(mask) if geometric else 1.0)
    ratio = log_ratio.exp()
    if action == "truncate":
        return ratio if clip_min is None and clip_max is None else ratio.clamp(min=clip_min, max=clip_max)
    low = -torch.inf if clip_min is None else clip_min
    high = torch.inf if clip_max is None else clip_max
    return torch.where((ratio >= low) & (ratio <= high), ratio, 0.0)


def sampler_statistics(
    old: Tensor, sampled: Tensor, ratio: Tensor, mask: Tensor, rows: Tensor | None = None
) -> dict[str, Statistic]:
    """How far the sampling engine is from the policy, under TRL's names; tokens it gave no log-prob are left out.

    ratio: what `sampler_ratio` gave for the same old, sampled, mask. `rows`: (B,) bool, those to look at; None = all.
    """
    if rows is None:
        rows = torch.ones(len(mask), dtype=torch.bool, device=mask.device)
    active = mask.bool() & rows[:, None]
    gap = (old - sampled).abs()
    known = active & ~gap.isnan()
    gap = torch.where(known, gap, 0.0)
    counted = rows[:, None] if ratio.shape[1] == 1 else active
    prefix = "sampling/importance_sampling_ratio"
    return {
        "sampling/sampling_logp_difference/mean": Statistic("mean", gap.sum(), known.sum()),
        "sampling/sampling_logp_difference/max": extreme("max", gap, known),
        f"{prefix}/min": extreme("min", ratio, counted),
        f"{prefix}/mean": Statistic("mean", (ratio * counted).sum(), counted.sum()),
        f"{prefix}/max": extreme("max", ratio, counted),
    }


def row_sum(values: Tensor, mask: Tensor) -> Tensor:
    """(B, C) to (B, 1): the sum over active tokens."""
    return (values * mask).sum(-1, keepdim=True)


def row_length(mask: Tensor) -> Tensor:
    """(B, C) to (B, 1): active tokens, 1 for a row without any so that it can be divided by."""
    return mask.sum(-1, keepdim=True).clamp(min=1.0)
