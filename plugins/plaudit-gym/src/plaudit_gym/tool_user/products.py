"""Products of two numbers: the rows, and the demonstrations that the base model imitates."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from .model import HEAD, TAIL

Split = Literal["train", "test"]
SIZES = {"train": 4000, "test": 512}
Piece = tuple[str, bool]
"""A stretch of a dialogue, and whether the model wrote it."""


def products(split: Split = "train", *, size: int | None = None, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of `prompt` (a conversation: "347*29") and `answer` ("10063"). The splits share no product.

    By default the train split has 4,000 rows and the test split 512.
    """
    if split not in SIZES:
        raise ValueError(f"split is {split!r}; gym:products has train and test")
    source = pairs(split, random.Random(f"products {split} {seed}"))
    chosen = [next(source) for _ in range(SIZES[split] if size is None else size)]
    return [{"prompt": [{"role": "user", "content": f"{a}*{b}"}], "answer": str(a * b)} for a, b in chosen]


def pairs(split: Split, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Factors without end, whose product belongs to the split: a tenth is held out by a hash of the text."""
    while True:
        a, b = rng.randint(100, 999), rng.randint(10, 99)
        if (zlib.crc32(f"{a}*{b}".encode()) % 10 == 0) == (split == "test"):
            yield a, b


def demonstration(a: int, b: int, rng: random.Random, *, tool_share: float) -> list[Piece]:
    """A dialogue behind the prompt: with the calculator in a share of cases, else with a guess, which is wrong."""
    if rng.random() >= tool_share:
        return [(f"={rng.randint(1, 9)}00000<|im_end|>", True)]
    return [
        (f"<tool_call>{HEAD}{a}*{b}{TAIL}</tool_call><|im_end|>", True),
        (f"\n<|im_start|>tool\n<tool_response>{a * b}</tool_response><|im_end|>\n<|im_start|>assistant\n", False),
        (f"={a * b}<|im_end|>", True),
    ]


def prompt_text(a: int, b: int) -> str:
    """The prompt as the chat template writes it."""
    return f"<tools>calculate</tools><|im_start|>user\n{a}*{b}<|im_end|>\n<|im_start|>assistant\n"
