"""What is checked of a GRPOConfig when it is made. Each rule is one row of a table in `rules.py`."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

from ...errors import UsageError
from .rules import CHOICES, ERRORS, RANGES, WARNINGS

REMOVED = {
    "max_prompt_length": "filter or shorten long prompts in the dataset; prompts that exceed the model's context are "
    "refused before training",
    "use_liger_loss": "leave it out: log-probs are computed from the hidden states in tiles anyway",
    "vllm_guided_decoding_regex": "it is called vllm_structured_outputs_regex",
    "wandb_log_unique_prompts": "it is called log_unique_prompts",
    "vllm_device": "leave it out: vllm_mode says where vLLM runs",
}
"""Fields that TRL once had, and what to do now."""


class ConfigError(UsageError, ValueError):
    """A GRPOConfig that cannot work."""


def check_names(given: Collection[str], fields: Collection[str]) -> None:
    """Raise ConfigError for a keyword that is no field."""
    refuse_removed(given)
    for name in given:
        if name not in fields:
            close = get_close_matches(name, fields, n=1)
            hint = f"did you mean {close[0]!r}?" if close else "see the fields of GRPOConfig and TrainingArguments."
            raise ConfigError(f"GRPOConfig has no field {name!r}; {hint}")


def refuse_removed(given: Collection[str]) -> None:
    """Raise ConfigError for a name that was a field once, with what to do now."""
    for name in given:
        if name in REMOVED:
            raise ConfigError(f"GRPOConfig has no field {name!r} any more: {REMOVED[name]}.")


def resolve_aliases(config: Any) -> None:
    """Turn old names and other spellings into the values they stand for."""
    spelling = config.scale_rewards
    if isinstance(spelling, str):
        spelling = {"true": True, "false": False}.get(spelling.lower(), spelling)
    config.scale_rewards = {True: "group", False: "none"}.get(spelling, spelling)
    config.top_k = config.top_k or 0
    config.pad_to_multiple_of = _padding(config.pad_to_multiple_of, config.device.type)
    if config.use_transformers_paged:
        _deprecated("use_transformers_paged", "use_transformers_continuous_batching")
        config.use_transformers_continuous_batching = True
    if config.vllm_importance_sampling_cap is not None:
        _deprecated("vllm_importance_sampling_cap", "vllm_importance_sampling_clip_max")
        config.vllm_importance_sampling_clip_max = config.vllm_importance_sampling_cap


def check_batches(config: Any) -> None:
    """Set `generation_batch_size` and `steps_per_generation` from each other, and check that groups fill batches."""
    micro_batch = config.per_device_train_batch_size * config.world_size
    size, steps = config.generation_batch_size, config.steps_per_generation
    if size is not None and steps is not None:
        raise ConfigError(
            f"generation_batch_size ({size}) and steps_per_generation ({steps}) are both set; set one, for the other "
            f"follows from per_device_train_batch_size x ranks ({micro_batch})."
        )
    if size is not None and (size < 1 or size % micro_batch):
        raise ConfigError(
            f"generation_batch_size ({size}) must be a multiple of per_device_train_batch_size x ranks "
            f"({micro_batch}); set {max(1, size // micro_batch) * micro_batch}, or another batch size."
        )
    if size is None:
        steps = config.gradient_accumulation_steps if steps is None else steps
        size = micro_batch * steps
    config.generation_batch_size, config.steps_per_generation = size, size // micro_batch
    _check_groups(config)


def check_config(config: Any) -> list[str]:
    """Raise ConfigError for the first rule that is broken; return the warnings."""
    for name, choices in CHOICES.items():
        value = getattr(config, name)
        if value not in choices:
            raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")
    for name, holds, wanted in RANGES:
        value = getattr(config, name)
        if not holds(value):
            raise ConfigError(f"{name} is {value!r}; it must be {wanted}.")
    for rule in ERRORS:
        if message := rule(config):
            raise ConfigError(message)
    return [message for rule in WARNINGS if (message := rule(config))]


def _check_groups(config: Any) -> None:
    group, size = config.num_generations, config.generation_batch_size
    if not isinstance(group, int) or group < 2:
        raise ConfigError(
            f"num_generations is {group!r}; advantages compare the completions of a prompt with each other, so it must "
            "be at least 2."
        )
    if size < 1 or size % group:
        raise ConfigError(
            f"generation_batch_size ({size} = per_device_train_batch_size {config.per_device_train_batch_size} x ranks "
            f"{config.world_size} x steps_per_generation {config.steps_per_generation}) must be a multiple of "
            f"num_generations ({group}); change one of them."
        )
    eval_group = group if config.num_generations_eval is None else config.num_generations_eval
    eval_batch = config.per_device_eval_batch_size * config.world_size
    if eval_group < 1:
        raise ConfigError(
            f"num_generations_eval is {eval_group!r}; it must be at least 1, or None for num_generations."
        )
    if config.do_eval and str(config.eval_strategy.value) != "no" and eval_batch % eval_group:
        raise ConfigError(
            f"per_device_eval_batch_size x ranks ({config.per_device_eval_batch_size} x {config.world_size}) must be a "
            f"multiple of the completions for each prompt in evaluation ({eval_group}); set "
            f"per_device_eval_batch_size={eval_group}, or num_generations_eval."
        )


def _padding(value: int | str | None, device: str) -> int | None:
    if value == "auto":
        return 128 if device == "neuron" else None
    if isinstance(value, str):
        if value.lower() in ("none", "null"):
            return None
        if not value.isdigit():
            raise ConfigError(f"pad_to_multiple_of is {value!r}; it must be a number, auto or none.")
        value = int(value)
    if value is not None and value < 1:
        raise ConfigError(f"pad_to_multiple_of is {value!r}; it must be at least 1, auto or none.")
    return value


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"{old} is the old name of {new}; use the new one.", FutureWarning, stacklevel=4)
