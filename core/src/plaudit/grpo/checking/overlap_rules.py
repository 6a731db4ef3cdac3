"""When generation may run beside training: the rules for `max_staleness`."""

from __future__ import annotations

from typing import Any


def _overlap_has_servers(config: Any) -> str | None:
    if not config.max_staleness or (config.use_vllm and config.vllm_mode == "server"):
        return None
    return (
        f"max_staleness is {config.max_staleness}, but the generator shares weights and device with the policy, so it "
        "cannot write while the policy learns: set use_vllm=True and vllm_mode='server', or max_staleness=0."
    )


def _overlap_is_corrected(config: Any) -> str | None:
    if not config.max_staleness or config.vllm_importance_sampling_correction:
        return None
    return (
        f"max_staleness is {config.max_staleness}, so completions come from older weights: set "
        "vllm_importance_sampling_correction=True, which weighs them, or max_staleness=0."
    )


def _overlap_lasts_a_cycle(config: Any) -> str | None:
    cycle = config.steps_per_generation * config.num_iterations
    needed = -(-cycle // config.gradient_accumulation_steps)
    if not config.max_staleness or config.max_staleness >= needed:
        return None
    return (
        f"max_staleness is {config.max_staleness}, but a generation batch is learnt from in {needed} optimizer steps, "
        f"so that the next is at least as old: set max_staleness={needed}, or 0."
    )


def _overlap_scores_beside(config: Any) -> str | None:
    if not config.max_staleness or not config.reward_lookahead:
        return None
    return "max_staleness already scores beside training: set reward_lookahead=0, or max_staleness=0."


OVERLAP_ERRORS = (_overlap_has_servers, _overlap_is_corrected, _overlap_lasts_a_cycle, _overlap_scores_beside)
