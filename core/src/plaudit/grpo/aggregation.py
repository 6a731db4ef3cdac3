"""From a per-token loss to one number. `loss` and `mask` are (B, C); the result is 0-dim.

These do not yet divide by the accumulation steps, but for `token_mean_of_step`, whose count already spans them.
"""

from __future__ import annotations

from torch import Tensor

from .records import LossScale


def mean_of_row_means(loss: Tensor, mask: Tensor, scale: LossScale) -> Tensor:
    """Every completion weighs the same (GRPO, SAPO)."""
    return ((loss * mask).sum(-1) / mask.sum(-1).clamp(min=1.0)).mean()


def token_mean(loss: Tensor, mask: Tensor, scale: LossScale) -> Tensor:
    """Every active token of the micro-batch weighs the same (BNPO)."""
    return (loss * mask).sum() / (scale.tokens() if scale.whole else mask.sum().clamp(min=1.0))


def constant_length(loss: Tensor, mask: Tensor, scale: LossScale) -> Tensor:
    """The sum over a constant, so that length changes no weight (Dr. GRPO, arXiv 2503.20783)."""
    return (loss * mask).sum() / (loss.shape[0] * scale.max_completion_length)


def mean_of_row_sums(loss: Tensor, mask: Tensor, scale: LossScale) -> Tensor:
    """Every completion weighs as much as it is long (LUSPO, arXiv 2602.05261)."""
    return (loss * mask).sum(-1).mean()


def token_mean_of_step(loss: Tensor, mask: Tensor, scale: LossScale) -> Tensor:
    """Every active token of the optimizer step weighs the same, on all ranks (DAPO, arXiv 2503.14476)."""
    return (loss * mask).sum() / scale.tokens()
