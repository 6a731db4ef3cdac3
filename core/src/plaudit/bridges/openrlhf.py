"""Rewards as OpenRLHF's `reward_func`, and as its remote reward server (OpenRLHF 0.11).

A file for `--remote_rm_url`:

    from plaudit.bridges.openrlhf import make_reward_func
    reward_func = make_reward_func("math")

The server is `plaudit serve math --protocol openrlhf`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .named import reference_columns, standalone
from .standalone import Judged, StandaloneReward


def make_reward_func(
    reward: Any, *, options: Mapping[str, Any] | None = None, abstain_score: float | None = None
) -> Callable[..., dict[str, Any]]:
    """OpenRLHF's function: `reward_func(queries, prompts, labels) -> {"rewards", "scores", "extra_logs"}`.

    reward: a name or anything that `load_reward` takes; the reference is the label. abstain_score: what OpenRLHF is
    told where there is no score. Raises Abstained there without it.
    """
    import torch

    function = standalone(reward, options)

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
        found = [
            function.judge_now(completion_of(query, prompt), reference_columns(label), prompt=prompt)
            for query, prompt, label in zip(queries, prompts, labels, strict=True)
        ]
        told = answer(function, found, abstain_score)
        return {
            "rewards": torch.tensor(told["rewards"]),
            "scores": torch.tensor(told["scores"]),
            "extra_logs": {name: torch.tensor(values) for name, values in told["extra_logs"].items()},
        }

    reward_func.__name__ = function.name
    return reward_func


def answer(function: StandaloneReward, found: Sequence[Judged], abstain_score: float | None) -> dict[str, Any]:
    """What OpenRLHF's server protocol answers for these completions."""
    numbers = [judged.number(function.name, abstain_score) for judged in found]
    scored = [float(judged.score is not None) for judged in found]
    return {"rewards": numbers, "scores": numbers, "extra_logs": {"scored": scored}}


def completion_of(query: str, prompt: str) -> str:
    """What was written after the prompt; OpenRLHF hands over prompt and completion in one text."""
    return query.removeprefix(prompt)
