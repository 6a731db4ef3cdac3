"""Rubrics of verifiers before 0.4 whose failures are failures, where verifiers takes them as 0."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

from plaudit.errors import UsageError

from ..episodes import EpisodeError

_NEEDED = ("_call_individual_reward_func", "_call_group_reward_func", "score_objects", "group_score_objects")


class NoScore(EpisodeError):
    """A reward function of a rubric gave no number."""


def parts_of(rubric: Any) -> list[Any]:
    """The rubrics that a rubric is made of: those of a group, of each environment of a group, or itself."""
    inner = [*(getattr(rubric, "rubrics", None) or ()), *(one.rubric for one in _environments(rubric))]
    return [part for one in inner for part in parts_of(one)] if inner else [rubric]


def scores_groups(rubric: Any) -> bool:
    """Whether a function of it compares the rollouts of a group."""
    return any(part.has_group_rewards for part in parts_of(rubric))


def strict(rubric: Any) -> None:
    """Make failures of a rubric's functions raise. Raises UsageError where nothing in it scores, or it is not known."""
    import verifiers

    parts = parts_of(rubric)
    missing = [name for part in parts for name in _NEEDED if not hasattr(part, name)]
    if missing:
        raise UsageError(f"verifiers: the rubric has no {missing[0]}; tested are verifiers 0.1.14 and 0.3.1")
    plain = all(type(part).score_rollout is verifiers.Rubric.score_rollout for part in parts)
    if plain and not any(weight for part in parts for weight in part.weights):
        raise UsageError("verifiers: the rubric has no function with a weight, so every reward would be 0")
    for part in parts:
        for name, call in (("_call_individual_reward_func", _call_one), ("_call_group_reward_func", _call_group)):
            original = getattr(part, name)
            if not isinstance(original, functools.partial):
                setattr(part, name, functools.partial(call, part, original))


def _environments(rubric: Any) -> list[Any]:
    return list((getattr(rubric, "env_map", None) or {}).values())


async def _call_one(rubric: Any, original: Any, func: Any, state: Any) -> float:
    if not _weighs(rubric, func):
        return float(await original(func=func, state=state))
    return _number(await _called(func, rubric.score_objects(state)), func)


async def _call_group(rubric: Any, original: Any, func: Any, states: Sequence[Any]) -> list[float]:
    if not _weighs(rubric, func):
        return list(await original(func=func, states=states))
    told = await _called(func, rubric.group_score_objects(list(states)))
    if not isinstance(told, (list, tuple)) or len(told) != len(states):
        raise NoScore(f"{_name(func)} gave {told!r:.60}; expected a list of {len(states)} numbers")
    return [_number(one, func) for one in told]


def _weighs(rubric: Any, func: Any) -> bool:
    """Whether a function's number counts; what weighs 0 only watches."""
    return any(one is func and weight for one, weight in zip(rubric.funcs, rubric.weights, strict=True))


def _number(told: Any, func: Any) -> float:
    number = isinstance(told, (int, float)) or hasattr(told, "__float__")
    if not number or not math.isfinite(float(told)):
        raise NoScore(f"{_name(func)} gave {told!r:.60}; expected a finite number")
    return float(told)


def _name(func: Any) -> str:
    return str(getattr(func, "__name__", func))


async def _called(function: Any, offered: Mapping[str, Any]) -> Any:
    """Call a function with those of the offered arguments that it names."""
    parameters = inspect.signature(function).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    told = function(**{name: value for name, value in offered.items() if takes_any or name in parameters})
    return await told if inspect.isawaitable(told) else told
