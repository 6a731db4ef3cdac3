"""Relations between the fields of a GRPOConfig that say how completions are written."""

from __future__ import annotations

from typing import Any


def dynamic_sampling_is_in_step(config: Any) -> str | None:
    ahead = [name for name in ("reward_lookahead", "max_staleness") if getattr(config, name)]
    if not config.dynamic_sampling or not ahead:
        return None
    return (
        f"dynamic_sampling needs the scores of a batch before the next is written, but {ahead[0]} writes ahead of "
        f"them; set {ahead[0]}=0, or dynamic_sampling=False."
    )


def one_engine_generates(config: Any) -> str | None:
    if not config.use_vllm:
        return None
    fields = (
        "use_transformers_continuous_batching",
        "cache_implementation",
        "compile_decoding",
        "max_cache_tokens",
    )
    asked = [f"{name}={getattr(config, name)!r}" for name in fields if getattr(config, name)]
    return f"use_vllm is on, so {', '.join(asked)} would be ignored; unset one of them." if asked else None


def dynamic_sampling_takes_rows_in_order(config: Any) -> str | None:
    chosen = config.row_sampling != "shuffle" or config.curriculum_column is not None
    if not config.dynamic_sampling or not chosen:
        return None
    what = f"row_sampling={config.row_sampling!r}" if config.row_sampling != "shuffle" else "a curriculum"
    return f"dynamic_sampling replaces prompts by those that follow in order, but {what} draws them; use one of them."


def tasks_fit_in_the_limit(config: Any) -> str | None:
    limits = config.task_max_completion_length
    if limits is None:
        return None
    if not isinstance(limits, dict) or not limits:
        return f"task_max_completion_length is {limits!r}; it must be a dict from a task's name to tokens, or None."
    for task, tokens in limits.items():
        if not isinstance(tokens, int) or isinstance(tokens, bool) or not 1 <= tokens <= config.max_completion_length:
            return (
                f"task_max_completion_length of task {task!r} is {tokens!r}; it must be a whole number of tokens, from "
                f"1 to max_completion_length ({config.max_completion_length})."
            )
    return None


GENERATION_ERRORS = (
    one_engine_generates,
    dynamic_sampling_is_in_step,
    dynamic_sampling_takes_rows_in_order,
    tasks_fit_in_the_limit,
)
"""Each says what is wrong and what to do, or None."""
