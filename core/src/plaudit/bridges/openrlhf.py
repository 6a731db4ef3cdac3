"""Rewards as OpenRLHF's `reward_func`, and as its remote reward server (OpenRLHF 0.11).

A file for `--remote_rm_url`:

    from plaudit.bridges.openrlhf import make_reward_func
    reward_func = make_reward_func("math")

The server is `plaudit serve math --protocol openrlhf`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError

from .named import reference_columns, standalone
from .standalone import Asked, Judged, StandaloneReward

END_TOKENS = re.compile(r"(?:(?:<[|｜][^<>\s]{1,40}[|｜]>|</s>|<eos>|<pad>|<end_of_turn>|<turn\|>)\s*)+\Z")
"""What ends a text that was decoded with its special tokens, as OpenRLHF's are."""


def make_reward_func(
    reward: Any, *, options: Mapping[str, Any] | None = None, abstain_score: float | None = None, **policy: Any
) -> Callable[..., dict[str, Any]]:
    """OpenRLHF's function: `reward_func(queries, prompts, labels) -> {"rewards", "scores", "extra_logs"}`.

    reward: a name or anything that `load_reward` takes; the reference is the label. abstain_score: what OpenRLHF is
    told where there is no score. `policy`: fields of RewardSpec, such as timeout_s. The function raises Abstained
    where there is no score and no abstain_score.
    """
    import torch

    function = standalone(reward, options, **policy)
    function.check_alone()

    def reward_func(queries: Sequence[str], prompts: Sequence[str], labels: Sequence[Any], **_: Any) -> dict[str, Any]:
        told = answer(
            function,
            function.judge_now(asked_of({"queries": queries, "prompts": prompts, "labels": labels})),
            abstain_score,
        )
        return {
            "rewards": torch.tensor(told["rewards"]),
            "scores": torch.tensor(told["scores"]),
            "extra_logs": {name: torch.tensor(values) for name, values in told["extra_logs"].items()},
        }

    reward_func.__name__ = function.name
    return reward_func


def asked_of(parts: Mapping[str, Any]) -> list[Asked]:
    """The completions of a call. `parts`: queries, prompts and labels, in this order, as the other side names them.

    Raises UsageError on lists of unequal length, and on a query or prompt that is no text.
    """
    for name, part in parts.items():
        if not isinstance(part, (list, tuple)):
            raise UsageError(f"{name} is {part!r:.60}; expected a list")
        wrong = [one for one in part if not isinstance(one, str)] if name != "labels" else []
        if wrong:
            raise UsageError(f"{name} holds {wrong[0]!r:.60}; expected text")
    if len({len(part) for part in parts.values()}) > 1:
        lengths = ", ".join(str(len(part)) for part in parts.values())
        raise UsageError(f"{', '.join(parts)} have {lengths} entries; expected as many of each")
    return [
        Asked(completion_of(query, prompt), reference_columns(label), prompt)
        for query, prompt, label in zip(*parts.values(), strict=True)
    ]


def answer(function: StandaloneReward, found: Sequence[Judged], abstain_score: float | None) -> dict[str, Any]:
    """What OpenRLHF's server protocol answers for these completions."""
    numbers = [judged.number(function.name, abstain_score) for judged in found]
    scored = [float(judged.score is not None) for judged in found]
    return {"rewards": numbers, "scores": numbers, "extra_logs": {"scored": scored}}


def completion_of(query: str, prompt: str) -> str:
    """What was written after the prompt, without the tokens that ended it.

    OpenRLHF hands over prompt and completion as one text, decoded with its special tokens: a token that begins texts
    may stand before the prompt.
    """
    before, found, after = query.partition(prompt) if prompt else ("", "", query)
    return END_TOKENS.sub("", after if found or not prompt else before)
