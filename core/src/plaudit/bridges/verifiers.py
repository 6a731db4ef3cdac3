"""Rewards in verifiers (0.4, its v1 interface).

In a task's configuration, a reward's name is the function's: `fn = "plaudit.bridges.verifiers:math"`, `weight = 1.0`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .named import by_name, standalone


def reward_function(
    reward: Any, *, options: Mapping[str, Any] | None = None, abstain_score: float | None = None
) -> Callable[..., Any]:
    """A function for a verifiers task: the completion is the trace's last reply, the columns are the task's fields.

    Where the reward has no score it records none, unless `abstain_score` says what to record.
    """
    function = standalone(reward, options)

    async def scored(task: Any, trace: Any) -> float | dict[str, float]:
        columns = task.model_dump()
        prompt = columns.pop("prompt", None) or ""
        judged = await function.judge(trace.last_reply, columns, prompt=prompt)
        if judged.score is None and abstain_score is None:
            return {}
        return judged.number(function.name, abstain_score)

    scored.__name__ = scored.__qualname__ = function.name
    return scored


__getattr__ = by_name(reward_function, __name__)
