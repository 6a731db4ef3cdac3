"""Fields about advantages and the loss. docs/concepts/grpo-maths.md has the formulas."""

# ruff: noqa: RUF009  (option() only wraps dataclasses.field, which the rule does not see)
from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass
class LossFields:
    """What is learnt from the rewards, and how far one batch may move the policy."""

    beta: float = option(0.0, "Weight of the KL divergence to the reference model; 0 = no reference model is loaded.")
    num_iterations: int = option(1, "Times that each generation batch is learnt from.")
    epsilon: float = option(0.2, "The ratio counts up to 1 - epsilon below.")
    delta: float | None = option(
        None, "Two-sided clipping: the ratio never exceeds this, whatever the sign of the advantage. Above 1 + epsilon."
    )
    epsilon_high: float | None = option(
        None, "The ratio counts up to 1 + epsilon_high above; None = epsilon. With cispo, the cap itself (5 is usual)."
    )
    sapo_temperature_neg: float = option(1.05, "Steepness of sapo's gate where the advantage is not positive.")
    sapo_temperature_pos: float = option(1.0, "Steepness of sapo's gate where the advantage is positive.")
    vespo_k_pos: float = option(2.0, "Power k of vespo's weight where the advantage is not negative.")
    vespo_lambda_pos: float = option(3.0, "Decay lambda of vespo's weight where the advantage is not negative.")
    vespo_k_neg: float = option(3.0, "Power k of vespo's weight where the advantage is negative.")
    vespo_lambda_neg: float = option(2.0, "Decay lambda of vespo's weight where the advantage is negative.")
    importance_sampling_level: str = option(
        "token", "One ratio of the policy to its old self for each token, or for each sequence (GSPO)."
    )
    reward_weights: list[float] | None = option(None, "Weight of each reward, in order; None = 1 each.")
    max_unscored_share: float | None = option(
        0.5,
        "When more of a training batch than this has no score at all, save a checkpoint and stop; None = never.",
    )
    multi_objective_aggregation: str = option(
        "sum_then_normalize",
        "sum_then_normalize: the weighted sum of the scores is made relative to the group. normalize_then_sum (GDPO): "
        "each score is, then they are summed and normalised over the batch.",
    )
    scale_within_task: bool = option(
        False,
        "With several tasks, take the statistics of the whole batch (scale_rewards batch, normalize_then_sum) over the "
        "rollouts of one task.",
    )
    scale_rewards: str = option(
        "group", "Divide by the standard deviation of the group, of the batch, or none. True = group, False = none."
    )
    loss_type: str = option("dapo", "grpo, dapo, dr_grpo, bnpo, cispo, sapo, luspo or vespo.")
    mask_truncated_completions: bool = option(False, "Learn nothing from completions that were cut off.")
    sync_ref_model: bool = option(False, "Move the reference model towards the policy now and then.")
    ref_model_mixup_alpha: float = option(0.6, "Share of the policy in the reference model after such a move.")
    ref_model_sync_steps: int = option(512, "Optimizer steps between two such moves.")
    top_entropy_quantile: float = option(
        1.0, "Learn only from this share of tokens, those of highest entropy; 1 = all."
    )
    entropy_coef: float = option(0.0, "Weight of the entropy bonus; with use_adaptive_entropy, its first value.")
    use_adaptive_entropy: bool = option(False, "Move the weight of the bonus so that entropy stays near a target.")
    entropy_coef_min: float = option(0.0, "Least weight of the adaptive bonus.")
    entropy_coef_max: float = option(1.0, "Greatest weight of the adaptive bonus.")
    entropy_coef_delta: float = option(0.005, "How far an optimizer step moves the weight of the adaptive bonus.")
    entropy_target: float = option(0.2, "Entropy a token, in nats, that the adaptive bonus aims at.")
    off_policy_mask_threshold: float | None = option(
        None,
        "Learn nothing from bad completions whose mean log-prob fell by more than this since sampling; None = off.",
    )
    use_bias_correction_kl: bool = option(True, "Weigh the KL estimate with the ratio, so that it is unbiased.")
