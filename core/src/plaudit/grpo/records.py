"""What the loss takes and gives. B rows of a micro-batch, C completion tokens; log-probs and entropies in nats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .statistics import Statistic


@dataclass(frozen=True, slots=True)
class LossInputs:
    """One micro-batch.

    `logp` (B, C): log-probs of the policy, with gradient.
    `mask` (B, C): 1 on tokens to learn from. `advantages` (B,) or (B, C).
    `old` (B, C): log-probs when the batch was generated; None = the current ones.
    `ref` (B, C): of the reference model. `sampled` (B, C): the sampler's own, where it reports them.
    `entropy` (B, C): with gradient if there is a bonus.
    `sampler_ratio` (B, C) or (B, 1): from `importance.sampler_ratio`; None = the sampler is the policy.
    `ran` (B,) bool: rows that the policy was run on; None = all. In the others logp is old, entropy 0, advantage 0.
    """

    logp: Tensor
    mask: Tensor
    advantages: Tensor
    old: Tensor | None = None
    ref: Tensor | None = None
    sampled: Tensor | None = None
    entropy: Tensor | None = None
    sampler_ratio: Tensor | None = None
    ran: Tensor | None = None

    def prepared(self) -> LossInputs:
        """The same with half-precision log-probs in float32, a mask of their type, (B, 1) advantages and `old` set."""
        logp = self.logp.float() if self.logp.dtype in (torch.float16, torch.bfloat16) else self.logp
        advantages = self.advantages.unsqueeze(1) if self.advantages.dim() == 1 else self.advantages
        old = logp.detach() if self.old is None else self.old
        return replace(self, logp=logp, mask=self.mask.to(logp.dtype), advantages=advantages, old=old)


@dataclass(frozen=True, slots=True)
class LossOptions:
    """The options of a loss, named as in GRPOConfig. `entropy_bonus`: whether a bonus may be paid at all."""

    loss_type: str = "dapo"
    importance_sampling_level: str = "token"
    epsilon: float = 0.2
    epsilon_high: float = 0.2
    delta: float | None = None
    beta: float = 0.0
    use_bias_correction_kl: bool = True
    sapo_temperature_pos: float = 1.0
    sapo_temperature_neg: float = 1.05
    vespo_k_pos: float = 2.0
    vespo_lambda_pos: float = 3.0
    vespo_k_neg: float = 3.0
    vespo_lambda_neg: float = 2.0
    off_policy_mask_threshold: float | None = None
    top_entropy_quantile: float = 1.0
    entropy_bonus: bool = False

    @classmethod
    def from_config(cls, config: Any) -> LossOptions:
        """The options of a GRPOConfig."""
        same = {name: getattr(config, name) for name in cls.__dataclass_fields__ if name not in _DERIVED}
        high = config.epsilon if config.epsilon_high is None else config.epsilon_high
        bonus = config.entropy_coef != 0 or config.use_adaptive_entropy
        return cls(**same, epsilon_high=high, entropy_bonus=bonus)


_DERIVED = ("epsilon_high", "entropy_bonus")


@dataclass(frozen=True, slots=True)
class LossScale:
    """How much of an optimizer step a micro-batch is.

    `accumulation`: micro-batches in this step; `items`: active tokens of the whole generation batch on all ranks;
    `steps_per_generation`: micro-batches in a generation batch. `world_size`: the generation batch over this rank's
    share of it. `whole`: in evaluation, where accumulation and steps_per_generation are 1, means over tokens go over
    all ranks' tokens, so that the ranks' losses, weighed by their shares, add up to the loss of one process.
    """

    items: Tensor | float
    max_completion_length: int
    accumulation: int = 1
    steps_per_generation: int = 1
    world_size: float = 1
    whole: bool = False

    def tokens(self) -> Tensor | float:
        """Active tokens of one optimizer step, a rank's share: the normaliser of dapo, cispo and vespo."""
        items = torch.as_tensor(self.items).clamp(min=1.0)
        return items / self.world_size * self.accumulation / self.steps_per_generation


@dataclass(frozen=True, slots=True)
class Term:
    """A per-token loss, (B, C) or (B, 1), before masks, KL and aggregation, with the metrics that belong to it."""

    loss: Tensor
    statistics: Mapping[str, Statistic] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LossResult:
    """`loss`: 0-dim, with gradient, scaled for accumulation. `statistics`: to be reduced over ranks.

    `entropy_sum` and `entropy_count`: over the tokens that the bonus acts on, for the adaptive controller; None when
    no entropy was given.
    """

    loss: Tensor
    statistics: Mapping[str, Statistic]
    entropy_sum: Tensor | None = None
    entropy_count: Tensor | None = None
