"""The problems: pairs of three-digit numbers, a tenth of them held out by a hash of the prompt."""

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
    """A kind of problem: how a pair is asked for, and what the right answer is."""

    name: str
    prompt: Callable[[int, int], str]
    answer: Callable[[int, int], int]


ADDITION = Task("addition", lambda a, b: f"{a}+{b}=", lambda a, b: a + b)
LARGER = Task("larger", lambda a, b: f"max({a},{b})=", max)
TASKS = {task.name: task for task in (ADDITION, LARGER)}


def pairs(task: Task, split: Split, rng: random.Random) -> Iterator[Pair]:
    """Pairs of different numbers in 100…999, without end, whose prompt belongs to the split.

    The hash is not linear in the digits, so every sum and every digit pair occurs in both splits.
    """
    while True:
        a, b = rng.randint(100, 999), rng.randint(100, 999)
        held_out = zlib.crc32(task.prompt(a, b).encode()) % 10 == 0
        if a != b and held_out == (split == "test"):
            yield a, b
