"""The datasets, found by name through the entry-point group `plaudit.datasets`."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

from .problems import ADDITION, LARGER, LARGER_IN_WORDS, Split, Task, pairs

SIZES = {"train": 4000, "test": 512}


def addition(split: Split = "train", *, size: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """Rows `prompt` ("123+456="), `answer` ("579") and `task` ("addition").

    The two splits share no pair. By default the train split has 4,000 rows and the test split 512.
    """
    return _rows(ADDITION, split, size, seed)


def larger(split: Split = "train", *, size: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """Rows `prompt` ("max(123,456)="), `answer` ("456") and `task` ("larger"); otherwise as `addition`."""
    return _rows(LARGER, split, size, seed)


def larger_in_words(split: Split = "train", *, size: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """Rows `prompt` ("Which number is larger, 47 or 82?"), `answer` ("82"), for a model that reads English."""
    return _rows(LARGER_IN_WORDS, split, size, seed)


def _rows(task: Task, split: Split, size: int | None, seed: int) -> list[dict[str, Any]]:
    if split not in SIZES:
        raise ValueError(f"split is {split!r}; the quickstart datasets have the splits 'train' and 'test'")
    chosen = islice(pairs(task, split, random.Random(seed)), SIZES[split] if size is None else size)
    return [{"prompt": task.prompt(a, b), "answer": str(task.answer(a, b)), "task": task.name} for a, b in chosen]
