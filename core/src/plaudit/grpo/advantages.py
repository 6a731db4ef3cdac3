"""Advantages: how much better a rollout scored than the others of its group.

Sources: GRPO (arXiv 2402.03300), Dr. GRPO for scale "none" (2503.20783), batch scaling (2508.08221), GDPO for
normalize_then_sum (2601.05242). Everything is float32 and a score of NaN means that the reward abstained.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

Aggregation = Literal["sum_then_normalize", "normalize_then_sum"]
Scale = Literal["group", "batch", "none"]
F = TypeVar("F", bound=Callable[..., Any])

EPSILON = 1e-4
ZERO_SPREAD = 1e-8


@dataclass(frozen=True, slots=True)
class Advantages:
    """What a generation batch of N rollouts in groups of G learns from K rewards.

    `values` (N,): the advantages, 0 where nothing is known.
    `rewards` (N,): weighted sums of scores, NaN where unscored.
    `scores` (N, K): as they were used, NaN where abstained, infinite or dropped.
    `zero_std` (N,): the deviation that scales the row is 0 (under normalize_then_sum it is that of the batch).
    `group_zero_std` (N / G,): the group teaches nothing, for no reward that counts differs inside it.
    `unscored` (N,): no reward scored the row.
    `infinite`: how many scores were ±inf and were treated as missing.
    """

    values: Tensor
    rewards: Tensor
    scores: Tensor
    zero_std: Tensor
    group_zero_std: Tensor
    unscored: Tensor
    infinite: int


def compute_advantages(
    scores: Tensor,
    *,
    num_generations: int,
    weights: Sequence[float] | None = None,
    aggregation: Aggregation = "sum_then_normalize",
    scale: Scale = "group",
    dropped: Collection[int] = (),
) -> Advantages:
    """Advantages of a whole generation batch (all ranks together).

    scores: (N, K), rows of a group consecutive, NaN = abstained. weights: K numbers, 1 each by default. dropped: rows
    that are left out, as if no reward had scored them. Raises ValueError when N is not a multiple of num_generations,
    or on an unknown aggregation or scale.
    """
    if scores.shape[0] % num_generations:
        raise ValueError(f"{scores.shape[0]} rollouts do not fill groups of {num_generations}: pass whole groups.")
    scores, infinite = _usable(scores, dropped)
    weight = scores.new_tensor([1.0] * scores.shape[1] if weights is None else list(weights))
    rewards = weighted_sum(scores, weight)
    values, std = _choose(_AGGREGATIONS, aggregation, "aggregation")(scores, rewards, weight, num_generations, scale)
    # A reward of weight 0 is only watched, so its spread teaches nothing.
    teaching = rewards.unsqueeze(1) if aggregation == "sum_then_normalize" else scores[:, weight != 0]
    return Advantages(
        values=torch.nan_to_num(values, nan=0.0),
        rewards=rewards,
        scores=scores,
        zero_std=torch.isclose(std, torch.zeros_like(std)),
        group_zero_std=_no_spread(teaching, num_generations),
        unscored=rewards.isnan(),
        infinite=infinite,
    )


def weighted_sum(scores: Tensor, weights: Tensor) -> Tensor:
    """(N, K) scores and (K,) weights to (N,) rewards: NaN scores are skipped; a row of nothing but NaN is NaN."""
    rewards = (scores * weights).nansum(dim=1)
    return torch.where(scores.isnan().all(dim=1) | ~rewards.isfinite(), torch.nan, rewards)


def centred(values: Tensor, dim: int) -> Tensor:
    """Values less their mean along `dim`, which skips NaN: exactly 0 where all are the same."""
    if not values.numel():
        return values
    # The mean of equal numbers may be another number: a third of three times 0.1 is not 0.1.
    least, most = _extremes(values, dim)
    return (values - values.nanmean(dim, keepdim=True)).masked_fill((least == most) & ~values.isnan(), 0.0)


def nan_std(values: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Sample standard deviation (ddof 1) that skips NaN; NaN where fewer than two values are left."""
    flat, dim = (values.flatten(), 0) if dim is None else (values, dim)
    count = (~flat.isnan()).sum(dim=dim, keepdim=keepdim)
    variance = centred(flat, dim).square().nanmean(dim=dim, keepdim=keepdim) * (count / (count - 1))
    return torch.where(count > 1, variance.sqrt(), torch.nan)


def reward_metrics(advantages: Advantages, names: Sequence[str]) -> dict[str, float]:
    """The metrics of a generation batch, under TRL's names and three of our own.

    `rewards/{name}/mean` and `/std` over the rows that the reward scored; `reward` and `reward_std` of the weighted
    sums; `frac_reward_zero_std` as TRL counts it, a share of rows; `frac_group_zero_std`, the share of groups without
    spread; `rewards/unscored` and `rewards/infinite`, counts. NaN where nothing was scored.
    """
    metrics = {}
    for k, name in enumerate(names):
        column = advantages.scores[:, k]
        metrics[f"rewards/{name}/mean"] = column.nanmean().item()
        metrics[f"rewards/{name}/std"] = nan_std(column).item()
    metrics["reward"] = advantages.rewards.nanmean().item()
    metrics["reward_std"] = nan_std(advantages.rewards).item()
    metrics["frac_reward_zero_std"] = advantages.zero_std.float().mean().item()
    metrics["frac_group_zero_std"] = advantages.group_zero_std.float().mean().item()
    metrics["rewards/unscored"] = float(advantages.unscored.sum().item())
    metrics["rewards/infinite"] = float(advantages.infinite)
    return metrics


def _usable(scores: Tensor, dropped: Collection[int]) -> tuple[Tensor, int]:
    scores = scores.to(torch.float32)
    infinite = scores.isinf()
    missing = infinite.clone()
    if dropped:
        missing[sorted(dropped)] = True
    return torch.where(missing, torch.nan, scores), int(infinite.sum().item())


def _sum_then_normalize(
    scores: Tensor, rewards: Tensor, weights: Tensor, num_generations: int, scale: Scale
) -> tuple[Tensor, Tensor]:
    """The weighted sum, less its group's mean, over the standard deviation of group or batch."""
    grouped = rewards.view(-1, num_generations)
    better = centred(grouped, 1).flatten()
    std = _choose(_SCALES, scale, "scale")(grouped)
    return (better if scale == "none" else better / (std + EPSILON)), std


def _normalize_then_sum(
    scores: Tensor, rewards: Tensor, weights: Tensor, num_generations: int, scale: Scale
) -> tuple[Tensor, Tensor]:
    """Every reward normalised in its group by itself, their weighted sum over the batch. `scale` has no say."""
    grouped = scores.view(-1, num_generations, scores.shape[1])
    std = torch.zeros_like(grouped[:, :1]) if num_generations == 1 else nan_std(grouped, dim=1, keepdim=True)
    normalised = (centred(grouped, 1) / (std + EPSILON)).view_as(scores)
    total = (normalised * weights).nansum(dim=1)
    total = torch.where(rewards.isnan(), torch.nan, total)
    batch_std = _batch_std(total.unsqueeze(1))
    return (total - total.nanmean()) / (batch_std + EPSILON), batch_std


def _group_std(grouped: Tensor) -> Tensor:
    size = grouped.shape[1]
    std = grouped.new_zeros(len(grouped)) if size == 1 else nan_std(grouped, dim=1)
    return std.repeat_interleave(size)


def _batch_std(grouped: Tensor) -> Tensor:
    count = grouped.numel()
    return grouped.new_zeros(count) if count == 1 else nan_std(grouped).expand(count)


def _no_spread(values: Tensor, num_generations: int) -> Tensor:
    """(N, J) to (N / G,): whether no column differs inside the group by more than rounding."""
    grouped = values.reshape(len(values) // num_generations, num_generations, values.shape[1])
    least, most = _extremes(grouped, 1)
    return (most - least <= ZERO_SPREAD).flatten(1).all(dim=1)


def _extremes(values: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The least and the greatest along `dim`, which is kept; where all are NaN, inf and -inf."""
    unknown = values.isnan()
    least = values.masked_fill(unknown, torch.inf).amin(dim, keepdim=True)
    return least, values.masked_fill(unknown, -torch.inf).amax(dim, keepdim=True)


def _choose(table: dict[str, F], name: str, what: str) -> F:
    if name not in table:
        raise ValueError(f"unknown {what} {name!r}: choose one of {', '.join(sorted(table))}.")
    return table[name]


_AGGREGATIONS: dict[str, Callable[[Tensor, Tensor, Tensor, int, Scale], tuple[Tensor, Tensor]]] = {
    "sum_then_normalize": _sum_then_normalize,
    "normalize_then_sum": _normalize_then_sum,
}

# Scale "none" still looks at the group's deviation, only to report groups without spread.
_SCALES: dict[str, Callable[[Tensor], Tensor]] = {"group": _group_std, "none": _group_std, "batch": _batch_std}
