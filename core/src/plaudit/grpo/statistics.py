"""Metrics as sums and counts, so that ranks with unequal tokens reduce to the true mean in one exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from .world import World

Kind = Literal["mean", "known_mean", "min", "max"]


@dataclass(frozen=True, slots=True)
class Statistic:
    """One rank's share of a metric, as 0-dim tensors on the device: nothing is synchronised until `reduce_statistics`.

    A mean holds its sum and its count. Where there was nothing (count 0) it is 0, and a known mean is NaN. A minimum or
    maximum holds the value, NaN where there was nothing.
    """

    kind: Kind
    value: Tensor
    count: Tensor

    def silent(self) -> Statistic:
        """The same of a rank that has nothing to say."""
        nothing = torch.nan if self.kind in ("min", "max") else 0.0
        return Statistic(self.kind, torch.full_like(self.value, nothing), torch.zeros_like(self.count))

    def joined(self, other: Statistic) -> Statistic:
        """The statistic of both shares together; `other` is of the same kind."""
        join = {"min": torch.fmin, "max": torch.fmax}.get(self.kind, torch.add)
        return Statistic(self.kind, join(self.value, other.value), self.count + other.count)


def token_mean(values: Tensor, mask: Tensor, rows: Tensor | None = None) -> Statistic:
    """Mean over the active tokens of (B, C) values, or over the rows of (B, 1) values, which hold one a sequence.

    `rows`: (B,) bool, the rows to look at; NaN where there are none.
    """
    values = values.detach()
    if rows is not None:
        weight = rows[:, None].to(values.dtype) * (1 if values.shape[1] == 1 else mask)
        return Statistic("known_mean", (values * weight).sum(), weight.sum())
    if values.shape[1] == 1:
        return Statistic("mean", values.sum(), torch.tensor(float(len(values)), device=values.device))
    return Statistic("mean", (values * mask).sum(), mask.sum())


def single(value: Tensor, weight: float = 1.0) -> Statistic:
    """A value that every rank has once; the metric is its mean over ranks, by their weights."""
    return Statistic("mean", value.detach() * weight, torch.full_like(value, weight, requires_grad=False))


def row_extreme(kind: Literal["min", "max"], values: Tensor, mask: Tensor) -> Statistic:
    """The least or greatest row mean of (B, C) values over active tokens, or of (B, 1) values; no empty rows."""
    values = values.detach()
    rows = values.squeeze(1) if values.shape[1] == 1 else (values * mask).sum(-1) / mask.sum(-1)
    return extreme(kind, rows, ~rows.isnan())


def extreme(kind: Literal["min", "max"], values: Tensor, active: Tensor) -> Statistic:
    """The least or greatest of the values where `active` (bool, same shape)."""
    count = active.sum()
    far = torch.inf if kind == "min" else -torch.inf
    held = torch.where(active, values.detach(), far)
    value = held.amin() if kind == "min" else held.amax()
    return Statistic(kind, torch.where(count > 0, value, torch.nan), count)


def reduce_statistics(statistics: Mapping[str, Statistic], world: World | None = None) -> dict[str, float]:
    """The metrics over all ranks, with one exchange and one synchronisation. Every rank passes the same names."""
    if not statistics:
        return {}
    pairs = torch.stack([torch.stack([s.value.float(), s.count.float()]) for s in statistics.values()])
    ranks = (world or World()).gather(pairs).view(-1, len(pairs), 2).cpu()
    return {
        name: _reduce(statistic.kind, ranks[:, i, 0], ranks[:, i, 1])
        for i, (name, statistic) in enumerate(statistics.items())
    }


def _reduce(kind: Kind, values: Tensor, counts: Tensor) -> float:
    if kind == "known_mean" and not counts.sum():
        return float("nan")
    if kind in ("mean", "known_mean"):
        return (values.sum() / counts.sum()).item() if counts.sum() else 0.0
    known = values[~values.isnan()]
    if not len(known):
        return float("nan")
    return (known.min() if kind == "min" else known.max()).item()
