"""A calculator as a tool, and sums that need it."""

from __future__ import annotations

import random
from typing import Any, Literal

from .expressions import BadExpression, evaluate, shown

Split = Literal["train", "test"]
_QUESTION = "What is {}? You can use the calculator. Say the number alone at the end."


class Calculator:
    """One tool, `calculate`. The answer is the model's last message: judge it with a verifier such as `numeric`."""

    def reset(self, **row: Any) -> None:
        """Nothing is kept from one rollout to the next."""

    def calculate(self, expression: str) -> str:
        """Compute an arithmetic expression exactly.

        Args:
            expression: Numbers, + - * / and brackets, such as "12 * (3 + 4)".

        Returns:
            The value.
        """
        try:
            return shown(evaluate(str(expression), signs=True).value)
        except BadExpression as error:
            return f"error: {error}"


def arithmetic(
    split: Split = "train", *, size: int = 1000, seed: int = 0, operands: int = 3, largest: int = 999
) -> list[dict[str, Any]]:
    """Rows of `prompt` (a conversation that asks for the value of an expression) and `answer`.

    `operands`: how many numbers, from 2, each up to `largest`. The splits share no row.
    """
    if split not in ("train", "test") or operands < 2 or largest < 10:
        raise ValueError(f"split {split!r}, operands {operands}, largest {largest}: no such arithmetic dataset")
    rng = random.Random(f"arithmetic {seed}")
    rows: list[dict[str, Any]] = []
    seen: set[str] = set()
    for _ in range(20 * size):
        if len(rows) == size:
            return rows
        expression = _expression(rng, operands, largest)
        # A hash of the text, not the order, decides the split: no size or seed mixes them.
        part = "test" if random.Random(expression).random() < 0.2 else "train"
        if part == split and expression not in seen:
            seen.add(expression)
            question = _QUESTION.format(expression)
            answer = shown(evaluate(expression).value)
            rows.append({"prompt": [{"role": "user", "content": question}], "answer": answer})
    raise ValueError(f"there are not {size} different sums of {operands} numbers up to {largest}")


def _expression(rng: random.Random, operands: int, largest: int) -> str:
    numbers = [rng.randint(2, largest) for _ in range(operands)]
    text = str(numbers[0])
    for place, number in enumerate(numbers[1:]):
        grouped = f"({text})" if place and rng.random() < 0.5 else text
        text = f"{grouped} {rng.choice('+-*')} {number}"
    return text
