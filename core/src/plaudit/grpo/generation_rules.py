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
    fields = ("use_transformers_continuous_batching", "cache_implementation", "max_cache_tokens")
    asked = [f"{name}={getattr(config, name)!r}" for name in fields if getattr(config, name)]
    return f"use_vllm is on, so {', '.join(asked)} would be ignored; unset one of them." if asked else None


GENERATION_ERRORS = (one_engine_generates, dynamic_sampling_is_in_step)
"""Each says what is wrong and what to do, or None."""
