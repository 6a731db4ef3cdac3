"""Relations between the fields of a GRPOConfig that correct for the engine that samples."""

from __future__ import annotations

from typing import Any


def sampler_bounds_are_ordered(config: Any) -> str | None:
    low, high = config.vllm_importance_sampling_clip_min, config.vllm_importance_sampling_clip_max
    if low is None or high is None or low < high:
        return None
    return (
        f"vllm_importance_sampling_clip_min ({low}) must be less than vllm_importance_sampling_clip_max ({high}); "
        "change or unset one."
    )


def truncation_has_a_bound(config: Any) -> str | None:
    bounds = (config.vllm_importance_sampling_clip_min, config.vllm_importance_sampling_clip_max)
    mode = config.vllm_importance_sampling_mode
    if not config.vllm_importance_sampling_correction or not mode.endswith("_truncate") or bounds != (None, None):
        return None
    return (
        f"vllm_importance_sampling_mode {mode!r} clips to bounds, but none is set: set "
        "vllm_importance_sampling_clip_max (3.0 is usual) or vllm_importance_sampling_clip_min."
    )


def _corrects_sampler(config: Any) -> bool:
    return bool(config.use_vllm and config.vllm_importance_sampling_correction)


def vespo_takes_token_ratios(config: Any) -> str | None:
    mode = config.vllm_importance_sampling_mode
    if config.loss_type != "vespo" or not _corrects_sampler(config) or mode.startswith("token_"):
        return None
    return (
        f"vllm_importance_sampling_mode is {mode!r}, but vespo builds the sequence's ratio from its tokens': set "
        "token_truncate or token_mask."
    )


def geometric_mean_is_of_sequences(config: Any) -> str | None:
    mode = config.vllm_importance_sampling_mode
    if not config.vllm_importance_sampling_geometric_mean or mode.startswith("sequence_"):
        return None
    return (
        f"vllm_importance_sampling_geometric_mean is over a completion's tokens, but {mode!r} has a ratio for each; "
        "set sequence_mask or sequence_truncate, or leave it out."
    )


# What narrows the candidates of each token, and the values that leave it off.
_NARROWING: dict[str, tuple[Any, ...]] = {
    "top_p": (1.0,),
    "min_p": (None, 0.0),
    "vllm_structured_outputs_regex": (None,),
}


def candidates_are_bounded(config: Any) -> str | None:
    values = {name: getattr(config, name) for name in _NARROWING}
    narrowed = [f"{name}={value!r}" for name, value in values.items() if value not in _NARROWING[name]]
    if not narrowed or config.top_k or not _corrects_sampler(config):
        return None
    return (
        f"{', '.join(narrowed)} with vllm_importance_sampling_correction: log-probs are compared over the tokens that "
        "were candidates, whose number must be bounded; set top_k=512 too, or turn the correction off."
    )


def penalty_excludes_correction(config: Any) -> str | None:
    if config.repetition_penalty == 1 or not _corrects_sampler(config):
        return None
    return (
        f"repetition_penalty ({config.repetition_penalty}) changes the sampler's log-probs in a way that cannot be "
        "recomputed; set repetition_penalty=1.0 or vllm_importance_sampling_correction=False."
    )


SAMPLER_ERRORS = (
    sampler_bounds_are_ordered,
    truncation_has_a_bound,
    vespo_takes_token_ratios,
    geometric_mean_is_of_sequences,
    candidates_are_bounded,
    penalty_excludes_correction,
)
"""Each says what is wrong and what to do, or None."""
