"""Rows that teach nothing: their advantage is 0, no gradient flows from them, no backward pass is spent on them."""

from __future__ import annotations

import torch
from torch import nn

from .batch import MicroBatch
from .logprobs import TokenScorer, TokenStats
from .records import LossOptions


def teaches_without_advantage(options: LossOptions) -> bool:
    """Whether a row of advantage 0 still moves the policy, by KL or by the entropy bonus."""
    return bool(options.beta) or options.entropy_bonus


def active_stats(scorer: TokenScorer, model: nn.Module, batch: MicroBatch) -> TokenStats:
    """(B, C) log-probs and metric entropies of all rows, with gradient on those alone whose advantage is not 0.

    At least one row keeps its gradient, so that every step gives every parameter one, if only zeros.
    """
    active = batch.advantages != 0
    if not active.any():
        active[0] = True
    if active.all():
        return scorer(model, batch, entropies="metric")
    taught, idle = active.nonzero()[:, 0], (~active).nonzero()[:, 0]
    found = scorer(model, batch.select(taught), entropies="metric")
    with torch.no_grad():
        rest = scorer(model, batch.select(idle), entropies="metric")
    place = torch.argsort(torch.cat([taught, idle]))
    logprobs = torch.cat([found.logprobs, rest.logprobs]).index_select(0, place)
    entropies = torch.cat([found.entropies, rest.entropies]).index_select(0, place)
    return TokenStats(logprobs, entropies)
