"""Rewards as verl's `compute_score` (verl 0.9).

In verl's configuration, with a reward's name as the function's:

    reward.custom_reward_function.path=pkg://plaudit.bridges.verl
    reward.custom_reward_function.name=math

or `name=compute_score` with `reward_kwargs={reward: math, options: {…}, abstain_score: 0.0}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

# Not relative: verl may load this file by its path, outside of the package.
from plaudit.bridges.named import by_name, reference_columns, standalone
from plaudit.bridges.standalone import StandaloneReward


async def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    reward: Any,
    options: Mapping[str, Any] | None = None,
    abstain_score: float | None = None,
    policy: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """The score of one answer, with the same keys for every row: score, acc, scored, extracted.

    reward: a name or anything that `load_reward` takes; `policy`: fields of RewardSpec, such as timeout_s. `extra_info`
    and what else verl passes are the row's columns, beside `data_source`; the reference is `ground_truth`.
    abstain_score: what verl is told where the reward has no score (`scored` is then 0.0), since verl cannot leave a row
    out. Raises Abstained there without it.
    """
    function = standalone(reward, options, **(policy or {}))
    row = {**(extra_info or {}), **more, "data_source": data_source}
    return await _told(function, solution_str, ground_truth, row, abstain_score)


def score_function(
    reward: Any, *, options: Mapping[str, Any] | None = None, abstain_score: float | None = None, **policy: Any
) -> Callable[..., Any]:
    """`compute_score` with its reward chosen: for a file of your own that verl loads. Raises as `load_reward` does."""
    function = standalone(reward, options, **policy)
    function.check_alone()

    async def scored(
        data_source: str, solution_str: str, ground_truth: Any, extra_info: Any = None, **more: Any
    ) -> dict[str, Any]:
        row = {**(extra_info or {}), **more, "data_source": data_source}
        return await _told(function, solution_str, ground_truth, row, abstain_score)

    scored.__name__ = scored.__qualname__ = function.name
    return scored


async def _told(
    function: StandaloneReward, solution: str, reference: Any, row: Mapping[str, Any], abstain_score: float | None
) -> dict[str, Any]:
    columns = reference_columns(reference, {name: value for name, value in row.items() if name != "prompt"})
    judged = await function.judge(solution, columns, prompt=row.get("prompt", ""))
    score = judged.number(function.name, abstain_score)
    return {
        "score": score,
        "acc": score,
        "scored": float(judged.score is not None),
        "extracted": judged.extracted or "",
    }


__getattr__ = by_name(score_function, __name__)
