"""Rewards as scorers of Inspect AI (inspect-ai 0.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .named import by_name, reference_columns, standalone


def plaudit_scorer(
    reward: Any, *, options: Mapping[str, Any] | None = None, name: str | None = None, **policy: Any
) -> Any:
    """A scorer for `Task(scorer=plaudit_scorer("math"))`.

    The completion is the model's output, the reference the target's text (a list where there are several), and the
    sample's metadata are the row's columns. `policy`: fields of RewardSpec, such as timeout_s. A reward that has no
    score leaves the sample unscored, with its reason as the explanation.
    """
    from inspect_ai.scorer import Score, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState

    function = standalone(reward, options, **policy)
    function.check_alone()

    async def score(state: TaskState, target: Target) -> Score:
        columns = reference_columns(target.text if len(target) == 1 else list(target), state.metadata)
        judged = await function.judge(state.output.completion, columns, prompt=state.input_text)
        more = {"answer": judged.extracted, "explanation": judged.failure or judged.reason or None}
        if judged.score is None:
            return Score.unscored(**more)
        return Score(value=judged.score, metadata={**judged.metrics, **judged.columns} or None, **more)

    @scorer(metrics=[mean(), stderr()], name=name or function.name)
    def made() -> Any:
        return score

    return made()


__getattr__ = by_name(plaudit_scorer, __name__)
