"""The rules for a GRPOConfig, as tables: choices, ranges, and relations between fields (errors and warnings)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..importance import LEVELS, SAMPLER_MODES
from ..losses import LOSSES
from .generation_rules import GENERATION_ERRORS
from .overlap_rules import OVERLAP_ERRORS
from .sampler_rules import SAMPLER_ERRORS

Test = Callable[[Any], bool]
Rule = Callable[[Any], str | None]

CHOICES: dict[str, tuple[str, ...]] = {
    "loss_type": tuple(LOSSES),
    "importance_sampling_level": LEVELS,
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "scale_rewards": ("group", "batch", "none"),
    "vllm_mode": ("colocate", "server"),
    "vllm_model_impl": ("vllm", "transformers", "auto"),
    "vllm_importance_sampling_mode": SAMPLER_MODES,
    "row_sampling": ("shuffle", "spread", "progress"),
}


def _positive(value: Any) -> bool:
    return value is not None and value > 0


def _not_negative(value: Any) -> bool:
    return value is not None and value >= 0


def _whole(value: Any) -> bool:
    return isinstance(value, int) and value >= 1


def _port(value: Any) -> bool:
    return bool(0 < value < 1 << 16)


RANGES: tuple[tuple[str, Test, str], ...] = (
    ("max_completion_length", _whole, "a whole number of tokens, at least 1"),
    ("num_iterations", _whole, "a whole number, at least 1"),
    ("learning_rate", _not_negative, "0 or more (1e-6 is usual)"),
    ("router_aux_loss_coef", lambda value: value is None or value >= 0, "0 or more, or None for the model's own"),
    ("steps_per_generation", _whole, "a whole number, at least 1"),
    ("row_sampling_uniform", lambda value: 0 <= value <= 1, "between 0 and 1 (0.2 is usual)"),
    ("curriculum_start", lambda value: 0 < value <= 1, "above 0 and at most 1 (0.2 is usual)"),
    ("curriculum_steps", _whole, "a whole number of optimizer steps, at least 1"),
    ("max_unscored_share", lambda value: value is None or 0 <= value <= 1, "between 0 and 1, or None for never"),
    ("reward_lookahead", lambda value: value in (0, 1), "0, or 1 for one generation batch ahead"),
    ("max_staleness", lambda value: isinstance(value, int) and value >= 0, "a whole number of optimizer steps, or 0"),
    (
        "vllm_importance_sampling_clip_max",
        lambda value: value is None or value > 0,
        "above 0 (3 is usual), or None for no limit",
    ),
    ("vllm_server_port", _port, "a port, from 1 to 65535"),
    ("vllm_group_port", lambda value: value == 0 or _port(value), "a port, from 1 to 65535, or 0 for any free one"),
    ("vllm_tensor_parallel_size", _whole, "a whole number of GPUs, at least 1"),
    ("vllm_max_model_length", lambda value: value is None or _whole(value), "a whole number of tokens, or None"),
    ("vllm_server_timeout", _positive, "above 0 (240 is usual)"),
    ("vllm_request_timeout", _positive, "above 0 (1800 is usual)"),
    ("temperature", _positive, "above 0 (log-probs are divided by it; for greedy evaluation set a small one)"),
    ("top_p", lambda value: 0 < value <= 1, "above 0 and at most 1 (1 = all tokens)"),
    ("top_k", _not_negative, "0 or more (0 = all tokens)"),
    ("min_p", lambda value: value is None or 0 <= value <= 1, "between 0 and 1, or None"),
    ("repetition_penalty", _positive, "above 0 (1 = none)"),
    ("beta", _not_negative, "0 or more (0 = no KL term)"),
    ("epsilon", _not_negative, "0 or more (0.2 is usual)"),
    ("epsilon_high", lambda value: value is None or value >= 0, "0 or more, or None for epsilon"),
    ("delta", lambda value: value is None or value > 0, "above 0, or None"),
    ("sapo_temperature_pos", _positive, "above 0 (1.0 is usual)"),
    ("sapo_temperature_neg", _positive, "above 0 (1.05 is usual)"),
    ("vespo_k_pos", _not_negative, "0 or more (2.0 is usual)"),
    ("vespo_k_neg", _not_negative, "0 or more (3.0 is usual)"),
    ("vespo_lambda_pos", _not_negative, "0 or more (3.0 is usual)"),
    ("vespo_lambda_neg", _not_negative, "0 or more (2.0 is usual)"),
    ("top_entropy_quantile", lambda value: 0 < value <= 1, "above 0 and at most 1 (1 = all tokens, 0.2 is usual)"),
    ("entropy_coef_delta", _not_negative, "0 or more"),
    ("ref_model_mixup_alpha", lambda value: 0 <= value <= 1, "between 0 and 1"),
    ("ref_model_sync_steps", _whole, "a whole number, at least 1"),
    ("dynamic_sampling_max_rounds", _whole, "a whole number, at least 1"),
    ("max_cache_tokens", lambda value: value is None or _whole(value), "a whole number of tokens, at least 1, or None"),
    ("max_tool_calling_iterations", lambda value: value is None or value >= 0, "0 or more, or None for no limit"),
    ("vllm_gpu_memory_utilization", lambda value: 0 < value <= 1, "above 0 and at most 1"),
    ("num_completions_to_print", lambda value: value is None or value >= 0, "0 or more, or None for all"),
)


def _entropy_bounds_are_ordered(config: Any) -> str | None:
    low, high = config.entropy_coef_min, config.entropy_coef_max
    return None if low <= high else f"entropy_coef_min ({low}) must not exceed entropy_coef_max ({high}); swap them."


def _reference_is_there_to_sync(config: Any) -> str | None:
    if not config.sync_ref_model or config.beta:
        return None
    return "sync_ref_model is on but beta is 0, so there is no reference model; set beta, or sync_ref_model=False."


def _upload_has_a_table(config: Any) -> str | None:
    if config.log_completions_hub_repo is None or config.log_completions:
        return None
    return (
        f"log_completions_hub_repo is {config.log_completions_hub_repo!r} but log_completions is off, so there is "
        "nothing to upload; set log_completions=True."
    )


def _batch_size_stays(config: Any) -> str | None:
    if not config.auto_find_batch_size:
        return None
    return (
        "auto_find_batch_size is on, but a smaller batch would tear groups apart; turn it off and set "
        "per_device_train_batch_size."
    )


def _sequences_stay_whole(config: Any) -> str | None:
    parallel = config.parallelism_config
    if parallel is None or not (parallel.cp_enabled or parallel.sp_enabled):
        return None
    return "parallelism_config splits sequences over devices, which GRPO cannot do; set cp_size=1 and sp_size=1."


ERRORS: tuple[Rule, ...] = (
    *SAMPLER_ERRORS,
    *GENERATION_ERRORS,
    *OVERLAP_ERRORS,
    _entropy_bounds_are_ordered,
    _reference_is_there_to_sync,
    _upload_has_a_table,
    _batch_size_stays,
    _sequences_stay_whole,
)


def _luspo_wants_sequences(config: Any) -> str | None:
    if config.loss_type != "luspo" or config.importance_sampling_level == "sequence":
        return None
    return "luspo is meant for importance_sampling_level='sequence'; at token level it is not the paper's loss."


def _vespo_wants_tokens(config: Any) -> str | None:
    if config.loss_type != "vespo" or config.importance_sampling_level == "token":
        return None
    return "vespo builds its own sequence ratio; leave importance_sampling_level at 'token'."


def _sequence_ratio_with_token_sum(config: Any) -> str | None:
    summed = ("bnpo", "dr_grpo", "dapo", "cispo")
    if config.importance_sampling_level != "sequence" or config.loss_type not in summed:
        return None
    return (
        f"importance_sampling_level='sequence' with loss_type={config.loss_type!r} weighs each sequence by its length; "
        "GSPO as published is loss_type='grpo'."
    )


def _cispo_cap_is_absolute(config: Any) -> str | None:
    cap = config.epsilon if config.epsilon_high is None else config.epsilon_high
    if config.loss_type != "cispo" or cap >= 1:
        return None
    return f"cispo caps the ratio at epsilon_high itself, and {cap} is below 1, so nearly all are capped; 5.0 is usual."


def _delta_is_above_the_clip(config: Any) -> str | None:
    high = 1 + (config.epsilon if config.epsilon_high is None else config.epsilon_high)
    if config.delta is None or config.delta >= high:
        return None
    return f"delta ({config.delta}) is below 1 + epsilon_high ({high}), so it replaces the upper clip; set it above."


def _adaptive_entropy_starts_inside(config: Any) -> str | None:
    low, high = config.entropy_coef_min, config.entropy_coef_max
    if not config.use_adaptive_entropy or low <= config.entropy_coef <= high:
        return None
    return f"entropy_coef ({config.entropy_coef}) lies outside entropy_coef_min..entropy_coef_max ({low}..{high})."


WARNINGS: tuple[Rule, ...] = (
    _luspo_wants_sequences,
    _vespo_wants_tokens,
    _sequence_ratio_with_token_sum,
    _cispo_cap_is_absolute,
    _delta_is_above_the_clip,
    _adaptive_entropy_starts_inside,
)
