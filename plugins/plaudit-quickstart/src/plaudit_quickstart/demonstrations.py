"""The sloppy teacher whose demonstrations the base model imitates.

It knows both the right rule and a wrong one, and picks by chance, so that the base model is right about half of the
time when it samples, and a reward for right answers can tell it which rule to keep.
"""

from __future__ import annotations

import random

from .problems import Task


def demonstration(task: Task, a: int, b: int, rng: random.Random, *, sloppiness: float) -> str:
    """A completion in the form `<think>…</think><answer>…</answer>`, wrong with a chance that grows with sloppiness."""
    work, answer = (_add if task.name == "addition" else _compare)(a, b, rng, sloppiness)
    return f"<think>{work}</think><answer>{answer}</answer>"


def _add(a: int, b: int, rng: random.Random, sloppiness: float) -> tuple[str, str]:
    """Digit by digit from the right; each carry is forgotten with probability `sloppiness`."""
    carry, steps, digits = 0, [], []
    for x, y in zip(reversed(str(a)), reversed(str(b)), strict=True):
        if carry and rng.random() < sloppiness:
            carry = 0
        total = int(x) + int(y) + carry
        steps.append(f"{x}+{y}{'+1' if carry else ''}={total}")
        digits.append(str(total % 10))
        carry = total // 10
    if carry:
        digits.append("1")
    return ",".join(steps), "".join(reversed(digits))


def _compare(a: int, b: int, rng: random.Random, sloppiness: float) -> tuple[str, str]:
    """Compare digits from the left until two differ; with probability `sloppiness`, from the right."""
    places = range(2, -1, -1) if rng.random() < sloppiness else range(3)
    steps = []
    for place in places:
        x, y = str(a)[place], str(b)[place]
        steps.append(f"{x},{y}")
        if x != y:
            return "=".join(steps), str(a if x > y else b)
    raise ValueError(f"the numbers must differ, both are {a}")
