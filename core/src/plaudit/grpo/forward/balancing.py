"""`router_aux_loss_coef`: the load-balancing loss of mixtures of experts (Switch Transformer, arXiv 2101.03961)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...errors import UsageError
from ..logprobs import TokenStats
from ..records import LossResult
from ..statistics import single


def balance_coefficient(args: Any, model: Any) -> float:
    """What the load-balancing loss weighs: as configured, else as the model says; 0 = it is not computed.

    Raises UsageError when it is asked of a model that has no experts, or does not return what its router said.
    """
    asked, config = args.router_aux_loss_coef, model.config.get_text_config()
    if not hasattr(config, "output_router_logits"):
        if asked:
            raise UsageError(
                f"router_aux_loss_coef is {asked}, but {type(model).__name__} is no mixture of experts that returns "
                "its router's logits, so there is no load to balance; leave it out"
            )
        return 0.0
    return float(getattr(config, "router_aux_loss_coef", 0.0) if asked is None else asked)


def with_balance(result: LossResult, stats: TokenStats, coefficient: float, accumulation: int) -> LossResult:
    """The result plus the weighed load-balancing loss, a share of it for each of `accumulation` micro-batches.

    Its own value becomes the metric `aux_loss`. A model that balances nothing leaves the result as it is.
    """
    if not coefficient:
        return result
    if stats.aux_loss is None:
        raise UsageError("the model returns no aux_loss although it was asked for; set router_aux_loss_coef=0")
    statistics = {**result.statistics, "aux_loss": single(stats.aux_loss)}
    # It may live on another device than the loss when the model is spread over several.
    added = coefficient * stats.aux_loss.to(result.loss) / accumulation
    return replace(result, loss=result.loss + added, statistics=statistics)
