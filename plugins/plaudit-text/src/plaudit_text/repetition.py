"""A penalty for repeated n-grams: "Demystifying Long Chain-of-Thought Reasoning", arXiv 2502.03373, app. C.2."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal

from plaudit import UsageError, completion_text, reward


def repeated_share(items: Sequence[Hashable], n: int) -> float:
    """1 - distinct n-grams / all n-grams; 0 for fewer than n items."""
    total = len(items) - n + 1
    if total <= 0:
        return 0.0
    distinct = {tuple(items[i : i + n]) for i in range(total)}
    return 1.0 - len(distinct) / total


@reward(deterministic=True)
def repetition(
    completions: list[Any],
    completion_ids: Sequence[Sequence[int]] | None = None,
    *,
    n: int = 3,
    max_penalty: float = -1.0,
    unit: Literal["tokens", "words"] = "tokens",
    **_: Any,
) -> list[float]:
    """`max_penalty` (≤ 0) times the share of repeated n-grams, of token ids or of whitespace-separated words."""
    if n < 1:
        raise UsageError(f"n must be at least 1, got {n}")
    if max_penalty > 0:
        raise UsageError(f"max_penalty must not be above 0, got {max_penalty}: a repetition would be rewarded")
    if unit == "tokens":
        if completion_ids is None:
            raise UsageError("repetition counts tokens but got no completion_ids; set unit = 'words'")
        return [repeated_share(ids, n) * max_penalty for ids in completion_ids]
    return [repeated_share(completion_text(completion).split(), n) * max_penalty for completion in completions]
