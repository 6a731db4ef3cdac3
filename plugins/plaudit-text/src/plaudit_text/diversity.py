"""A reward for differing from the rest of the group, against mode collapse."""

from __future__ import annotations

from collections import Counter
from typing import Any

from plaudit import completion_text, reward


@reward(granularity="group", deterministic=True)
def diversity(completions: list[Any], *, n: int = 3, max_bonus: float = 1.0, **_: Any) -> list[float]:
    """`max_bonus` times the mean share of a completion's word n-grams that no other completion of its group holds.

    Texts of fewer than n words count as one n-gram; identical completions earn 0, and so does a group of one.
    """
    grams = [_ngrams(completion_text(completion), n) for completion in completions]
    holders = Counter(gram for own in grams for gram in own)
    if len(grams) < 2:
        return [0.0] * len(grams)
    return [max_bonus * sum(holders[gram] == 1 for gram in own) / len(own) for own in grams]


def _ngrams(text: str, n: int) -> set[tuple[str, ...]]:
    words = text.lower().split()
    if len(words) < n:
        return {tuple(words)}
    return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}
