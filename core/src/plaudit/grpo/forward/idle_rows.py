"""Rows that teach nothing: no gradient flows from them, so the model does not run on them.

Their advantage is 0, or none of their tokens counts. They stay in the loss as rows whose ratio is 1, so that every
normaliser and every metric that counts rows or tokens is what it is with them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..batch import MicroBatch
from ..logprobs import TokenScorer, TokenStats
from ..records import LossOptions
from ..statistics import Statistic


def teaches_without_advantage(options: LossOptions) -> bool:
    """Whether a row of advantage 0 moves the policy all the same: by KL, by the entropy bonus, or because its tokens
    take part in choosing those of highest entropy.
    """
    return bool(options.beta) or options.entropy_bonus or options.top_entropy_quantile < 1


def active_rows(batch: MicroBatch) -> Tensor:
    """(B,) bool: the rows that something is learnt from."""
    return batch.advantages.ne(0).view(len(batch.mask), -1).any(1) & batch.mask.ne(0).any(1)


def active_stats(scorer: TokenScorer, model: nn.Module, batch: MicroBatch) -> TokenStats:
    """(B, C) log-probs and metric entropies; those of idle rows are not computed, `ran` says which were.

    An idle row gets its old log-probs, or zeros. The model is called once whatever the rows are, so that ranks stay in
    step and every parameter gets a gradient, if only zeros: where all rows are idle, on a single token (or image row).
    """
    active = active_rows(batch)
    if active.all():
        return scorer(model, batch, entropies="metric")
    logprobs = torch.zeros_like(batch.mask) if batch.old_logprobs is None else batch.old_logprobs
    entropies = torch.zeros_like(batch.mask)
    if not active.any():
        nothing = scorer(model, _least(batch)).logprobs.sum() * 0
        return TokenStats(logprobs + nothing, entropies, active)
    rows = active.nonzero()[:, 0]
    found = scorer(model, batch.select(rows), entropies="metric")
    assert found.entropies is not None
    dtype = found.logprobs.dtype
    return TokenStats(
        logprobs.to(dtype).index_copy(0, rows, found.logprobs),
        entropies.to(dtype).index_copy(0, rows, found.entropies),
        active,
    )


def skipped_rows(stats: TokenStats) -> Statistic:
    """The share of rows that the model did not run on."""
    rows = stats.logprobs.new_tensor(len(stats.logprobs))
    skipped = torch.zeros_like(rows) if stats.ran is None else rows - stats.ran.sum()
    return Statistic("mean", skipped, rows)


def _least(batch: MicroBatch) -> MicroBatch:
    """What still reaches every parameter: a token, or the first row where there are images to look at."""
    if batch.media:
        return batch.select(torch.zeros(1, dtype=torch.long, device=batch.mask.device))
    token = batch.input_ids[:1, :1]
    first = torch.zeros(1, dtype=torch.long, device=token.device)
    return MicroBatch(
        input_ids=token,
        attention_mask=None,
        positions=first,
        targets=token[0],
        slots=first,
        mask=batch.mask.new_zeros(1, 1),
        advantages=batch.advantages[:1],
    )
