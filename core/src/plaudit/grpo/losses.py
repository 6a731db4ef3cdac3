"""The loss of a micro-batch: a ratio, a per-token term, masks, KL, aggregation, entropy bonus.

`LOSSES` says which term and which aggregation each loss is made of; a new loss is one more row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from . import aggregation, terms
from .importance import policy_ratio
from .masks import off_policy_mask, top_entropy_mask
from .records import LossInputs, LossOptions, LossResult, LossScale, Term
from .statistics import Statistic, single, token_mean
from .world import World


@dataclass(frozen=True, slots=True)
class Loss:
    """`term`: the per-token loss. `aggregate`: to one number. `spans_step`: it is already scaled for accumulation.

    `weighs_sampler`: the sampler's ratio is inside the term, so it is not multiplied in again.
    """

    term: Callable[[LossInputs, Tensor, LossOptions], Term]
    aggregate: Callable[[Tensor, Tensor, LossScale], Tensor]
    spans_step: bool = False
    weighs_sampler: bool = False


LOSSES: dict[str, Loss] = {
    "grpo": Loss(terms.clipped, aggregation.mean_of_row_means),
    "bnpo": Loss(terms.clipped, aggregation.token_mean),
    "dr_grpo": Loss(terms.clipped, aggregation.constant_length),
    "dapo": Loss(terms.clipped, aggregation.token_mean_of_step, spans_step=True),
    "luspo": Loss(terms.clipped, aggregation.mean_of_row_sums),
    "cispo": Loss(terms.cispo, aggregation.token_mean_of_step, spans_step=True),
    "sapo": Loss(terms.sapo, aggregation.mean_of_row_means),
    "vespo": Loss(terms.vespo, aggregation.token_mean_of_step, spans_step=True, weighs_sampler=True),
}


def policy_loss(
    inputs: LossInputs,
    options: LossOptions,
    scale: LossScale,
    *,
    entropy_coef: float = 0.0,
    world: World | None = None,
) -> LossResult:
    """The loss to call backward on, and the metrics that come from it.

    entropy_coef: what the bonus weighs in this step (`EntropyController.coefficient`). Raises ValueError on an unknown
    loss or when the options need an input that is missing.
    """
    loss = find_loss(options.loss_type)
    _check_inputs(inputs, options)
    inputs = inputs.prepared()
    assert inputs.old is not None
    mask = inputs.mask
    ratio = policy_ratio(inputs.logp, inputs.old, mask, options.importance_sampling_level)
    term = loss.term(inputs, ratio, options)
    keep = _entropy_keep(inputs, options, world or World())
    per_token, statistics = _masked(inputs, term, loss, options, keep), dict(term.statistics)
    if options.beta:
        divergence = kl(inputs, ratio, options.use_bias_correction_kl)
        per_token = per_token + options.beta * divergence
        statistics["kl"] = token_mean(divergence, mask)
    total = loss.aggregate(per_token.expand_as(inputs.logp), mask, scale)
    if options.entropy_bonus:
        statistics["policy_loss"] = single(total, 1 / scale.world_size if scale.whole else 1.0)
    if not loss.spans_step:
        total = total / scale.accumulation
    acts_on = mask if keep is None else mask * keep
    return _with_entropy(total, inputs, acts_on, scale, entropy_coef, statistics, world or World())


def find_loss(loss_type: str) -> Loss:
    """The loss of that name. Raises ValueError with the names that exist."""
    if loss_type not in LOSSES:
        raise ValueError(f"unknown loss_type {loss_type!r}: choose one of {', '.join(LOSSES)}.")
    return LOSSES[loss_type]


def kl(inputs: LossInputs, ratio: Tensor, bias_correction: bool) -> Tensor:
    """(B, C): Schulman's k3 estimate of KL(policy || reference), from below never negative.

    With bias correction it is multiplied by the (unclipped, differentiable) policy ratio, which makes its gradient
    that of the true divergence off policy (DeepSeek-V3.2, arXiv 2512.02556).
    """
    assert inputs.ref is not None
    gap = inputs.ref - inputs.logp
    estimate = gap.exp() - gap - 1
    return estimate * ratio if bias_correction else estimate


def _masked(inputs: LossInputs, term: Term, loss: Loss, options: LossOptions, keep: Tensor | None) -> Tensor:
    """The term with rows off policy and tokens of low entropy left out, weighed by the sampler's ratio."""
    per_token = term.loss
    if options.off_policy_mask_threshold is not None:
        sampled = inputs.old if inputs.sampled is None else inputs.sampled
        threshold = options.off_policy_mask_threshold
        per_token = per_token * off_policy_mask(inputs.logp, sampled, inputs.mask, inputs.advantages, threshold)
    if keep is not None:
        per_token = per_token * keep
    if inputs.sampler_ratio is not None and not loss.weighs_sampler:
        per_token = per_token * inputs.sampler_ratio
    return per_token


def _entropy_keep(inputs: LossInputs, options: LossOptions, world: World) -> Tensor | None:
    if options.top_entropy_quantile >= 1 or inputs.entropy is None:
        return None
    return top_entropy_mask(inputs.entropy, inputs.mask, options.top_entropy_quantile, world)


def _with_entropy(
    total: Tensor,
    inputs: LossInputs,
    acts_on: Tensor,
    scale: LossScale,
    coefficient: float,
    statistics: dict[str, Statistic],
    world: World,
) -> LossResult:
    """The result, less the bonus: the mean entropy of the tokens `acts_on`, whatever the loss is normalised by."""
    if inputs.entropy is None:
        return LossResult(total, statistics)
    statistics["entropy"] = token_mean(inputs.entropy, inputs.mask, inputs.ran)
    entropy_sum, count = (inputs.entropy * acts_on).sum(), acts_on.sum()
    if coefficient:
        total = total - coefficient * _mean_entropy(entropy_sum, count, scale, world)
    return LossResult(total, statistics, entropy_sum.detach(), count)


def _mean_entropy(entropy_sum: Tensor, count: Tensor, scale: LossScale, world: World) -> Tensor:
    if scale.whole:
        return entropy_sum / world.gather(count.view(1)).sum().clamp(min=1.0) * scale.world_size
    return entropy_sum / count.clamp(min=1.0) / scale.accumulation


def _check_inputs(inputs: LossInputs, options: LossOptions) -> None:
    needs_entropy = options.entropy_bonus or options.top_entropy_quantile < 1
    if needs_entropy and inputs.entropy is None:
        raise ValueError("entropy_coef and top_entropy_quantile need the entropies of the tokens: pass inputs.entropy.")
    if options.beta and inputs.ref is None:
        raise ValueError(f"beta={options.beta} needs the reference model's log-probs: pass inputs.ref.")
