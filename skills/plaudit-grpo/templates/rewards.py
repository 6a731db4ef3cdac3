"""Rewards of this run. A reward sees a batch and returns a score for each completion, or None where it cannot judge.

Test each by itself: `plaudit score ./rewards.py:NAME --data completions.jsonl`.
"""

from __future__ import annotations

import re
from typing import Any

from plaudit import completion_text, reward

THINK = re.compile(r"<think>(.+?)</think>", re.DOTALL)
ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@reward(granularity="rollout", deterministic=True)
def shown_work(completions: list[Any], *, least_words: int = 3, **_: Any) -> list[float]:
    """Format in parts: ½ for a filled think block, all when it has at least `least_words` words."""
    scores = []
    for completion in completions:
        found = THINK.search(completion_text(completion))
        words = len(found[1].split()) if found else 0
        scores.append(0.0 if not words else 1.0 if words >= least_words else 0.5)
    return scores


@reward(granularity="rollout", deterministic=True)
def short_answer(completions: list[Any], *, limit: int = 20, **_: Any) -> list[float | None]:
    """Length: 1 for an answer of at most `limit` characters, falling to 0 at twice that; None without an answer."""
    found = [ANSWER.search(completion_text(completion)) for completion in completions]
    return [None if one is None else min(1.0, max(0.0, 2 - len(one[1].strip()) / limit)) for one in found]
