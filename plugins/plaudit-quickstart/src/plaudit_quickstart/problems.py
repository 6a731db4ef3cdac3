"""The problems: pairs of numbers, a tenth of them held out by a hash of the prompt."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "test"]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of problem: how a pair of numbers in `low`…`high` is asked for, and what the right answer is."""

    name: str
    prompt: Callable[[int, int], str]
    answer: Callable[[int, int], int]
    low: int
    high: int


ADDITION = Task("addition", lambda a, b: f"{a}+{b}=", lambda a, b: a + b, 100, 999)
LARGER = Task("larger", lambda a, b: f"max({a},{b})=", max, 100, 999)
LARGER_IN_WORDS = Task("larger_in_words", lambda a, b: f"Which number is larger, {a} or {b}?", max, 10, 99)


def pairs(task: Task, split: Split, rng: random.Random) -> Iterator[Pair]:
    """Pairs of different numbers, without end, whose prompt belongs to the split.

    The hash is not linear in the digits, so every sum and every digit pair occurs in both splits.
    """
    while True:
        a, b = rng.randint(task.low, task.high), rng.randint(task.low, task.high)
        held_out = zlib.crc32(task.prompt(a, b).encode()) % 10 == 0
        if a != b and held_out == (split == "test"):
            yield a, b
