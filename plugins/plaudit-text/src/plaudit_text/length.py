"""Rewards on the length of a completion, in tokens of `completion_ids` unless said otherwise."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, Literal

from plaudit import UsageError, completion_text, load_reward, reward

Unit = Literal["tokens", "words", "characters"]


def overlong_punishment(length: int, max_completion_len: int, soft_punish_cache: int) -> float:
    """0 up to `max_completion_len - soft_punish_cache`, then falling linearly to -1 at the maximum and beyond.

    Source: soft overlong punishment of DAPO, arXiv 2503.14476, equation 13.
    """
    free = max_completion_len - soft_punish_cache
    if length <= free:
        return 0.0
    if length <= max_completion_len:
        return (free - length) / soft_punish_cache
    return -1.0


def cosine_value(
    length: int,
    correct: bool,
    *,
    max_len: int,
    min_value_correct: float = 0.5,
    max_value_correct: float = 1.0,
    min_value_wrong: float = -1.0,
    max_value_wrong: float = -0.5,
) -> float:
    """A short right answer earns most, a short wrong one loses most; flat past `max_len`.

    Source: cosine reward of "Demystifying Long Chain-of-Thought Reasoning", arXiv 2502.03373.
    """
    progress = min(length / max_len, 1.0)
    if correct:
        low, high = min_value_correct, max_value_correct
    else:
        low, high = max_value_wrong, min_value_wrong
    return low + 0.5 * (high - low) * (1.0 + math.cos(math.pi * progress))


@reward(deterministic=True)
def soft_overlong(
    completion_ids: Sequence[Sequence[int]],
    *,
    max_completion_len: int = 512,
    soft_punish_cache: int = 128,
    **_: Any,
) -> list[float]:
    """DAPO's soft overlong punishment (`overlong_punishment`) of each completion's number of tokens."""
    _require_positive(max_completion_len=max_completion_len, soft_punish_cache=soft_punish_cache)
    return [overlong_punishment(len(ids), max_completion_len, soft_punish_cache) for ids in completion_ids]


@reward(deterministic=True)
def target_length(
    completions: list[Any],
    completion_ids: Sequence[Sequence[int]] | None = None,
    *,
    target: int = 100,
    tolerance: int = 0,
    scale: float = 0.01,
    unit: Unit = "tokens",
    **_: Any,
) -> list[float]:
    """0 within `tolerance` of `target`, then minus `scale` for each unit further away, but never below -1."""
    lengths = [_length(completion, i, completion_ids, unit) for i, completion in enumerate(completions)]
    return [max(-1.0, -scale * max(0, abs(length - target) - tolerance)) for length in lengths]


def _length(completion: Any, index: int, completion_ids: Sequence[Sequence[int]] | None, unit: Unit) -> int:
    if unit == "tokens":
        if completion_ids is None:
            raise UsageError(
                "target_length counts tokens but got no completion_ids; set unit = 'words' or 'characters'"
            )
        return len(completion_ids[index])
    text = completion_text(completion)
    return len(text.split()) if unit == "words" else len(text)


class CosineScaled:
    """A verifier's verdict scaled by length (`cosine_value`): right when the verifier scores above `threshold`.

    `correctness` names the reward or verifier that judges (default `math`, as TRL's get_cosine_scaled_reward does);
    where it abstains, so does this. Lengths are in tokens.
    """

    def __init__(
        self,
        *,
        max_len: int,
        correctness: str = "math",
        threshold: float = 0.0,
        min_value_correct: float = 0.5,
        max_value_correct: float = 1.0,
        min_value_wrong: float = -1.0,
        max_value_wrong: float = -0.5,
    ) -> None:
        _require_positive(max_len=max_len)
        self._judge = load_reward(correctness)
        self._threshold = threshold
        self._values = {
            "max_len": max_len,
            "min_value_correct": min_value_correct,
            "max_value_correct": max_value_correct,
            "min_value_wrong": min_value_wrong,
            "max_value_wrong": max_value_wrong,
        }

    def __call__(
        self, completions: list[Any], completion_ids: Sequence[Sequence[int]], **columns: Any
    ) -> list[float | None]:
        scores = self._judge(completions=completions, completion_ids=completion_ids, **columns)
        if inspect.isawaitable(scores):
            raise UsageError("cosine_scaled needs a synchronous verifier; an asynchronous one was named")
        return [
            None if score is None else cosine_value(len(ids), score > self._threshold, **self._values)
            for score, ids in zip(scores, completion_ids, strict=True)
        ]


def _require_positive(**values: int) -> None:
    for name, value in values.items():
        if value <= 0:
            raise UsageError(f"{name} must be above 0, got {value}")
