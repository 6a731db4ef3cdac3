"""What a reward or verifier may return, brought to one form: floats or None, and Verdicts."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Iterable
from typing import Any

from plaudit.errors import ContractError
from plaudit.types import Verdict


def as_score(value: Any, name: str) -> float | None:
    """A float, or None for None and NaN (both abstain). Infinity passes: the scheduler decides what it costs.

    Takes int, bool and one-element numpy and torch scalars too. Raises ContractError, naming the component, on anything
    else.
    """
    if value is None:
        return None
    if not isinstance(value, (bool, int, float)):
        value = _scalar(value, name)
        if value is None:
            return None
    score = float(value)
    return None if math.isnan(score) else score


def as_verdicts(values: Any, count: int, name: str) -> list[Verdict]:
    """The verdicts on `count` rollouts from what a reward function returned: scores or Verdicts, N of them.

    Raises ContractError when it is no list, or of the wrong length.
    """
    _refuse_awaitable(values, name)
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes, dict)) or not isinstance(values, Iterable):
        raise ContractError(
            f"reward '{name}' returned {_shown(values)}; expected a list of {count} floats or None, one a completion"
        )
    verdicts = [as_verdict(value, name) for value in values]
    if len(verdicts) != count:
        raise ContractError(
            f"reward '{name}' returned {len(verdicts)} scores for {count} completions; it must return one for each"
        )
    return verdicts


def as_verdict(value: Any, name: str) -> Verdict:
    """A Verdict from what a verifier returned: Verdict, float, bool or None. Raises ContractError on anything else."""
    if not isinstance(value, Verdict):
        _refuse_awaitable(value, name)
        return Verdict(as_score(value, name))
    if value.score is None or (type(value.score) is float and value.score == value.score):
        return value
    return dataclasses.replace(value, score=as_score(value.score, name))


def _scalar(value: Any, name: str) -> Any:
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "size", None) is not None:
        try:
            value = item()
        except (ValueError, RuntimeError, TypeError):
            item = None
        if value is None or isinstance(value, (bool, int, float)):
            return value
    raise ContractError(f"'{name}' returned the score {_shown(value)}; expected a float, bool or None")


def _refuse_awaitable(value: Any, name: str) -> None:
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise ContractError(f"'{name}' returned something to await; declare it with async def, so that it is awaited")


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
