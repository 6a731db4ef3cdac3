"""TRL's accuracy rewards beside ours, on pairs that both can judge."""

from __future__ import annotations

import pytest
from plaudit import load_reward

PAIRS = [
    (r"\boxed{4}", "$4$"),
    (r"\boxed{5}", "$4$"),
    (r"\boxed{\frac{1}{2}}", r"$\frac{1}{2}$"),
    (r"\boxed{0.5}", r"$\frac{1}{2}$"),
    (r"\boxed{\sqrt{8}}", r"$2\sqrt{2}$"),
    (r"\boxed{x+1}", "$1+x$"),
    (r"\boxed{x-1}", "$1+x$"),
    ("no answer", "$7$"),
]


@pytest.mark.peer
def test_accuracy_reward():
    from trl.rewards import accuracy_reward

    completions = [[{"role": "assistant", "content": text}] for text, _ in PAIRS]
    solution = [gold for _, gold in PAIRS]
    theirs = accuracy_reward(completions=completions, solution=solution)
    assert load_reward("math")(completions=completions, solution=solution) == theirs


@pytest.mark.peer
def test_reasoning_accuracy_reward():
    from trl.rewards import reasoning_accuracy_reward

    texts = [f"<think>maybe 9</think>The answer is {text}" for text, _ in PAIRS]
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    solution = [gold for _, gold in PAIRS]
    theirs = reasoning_accuracy_reward(completions=completions, solution=solution)
    assert load_reward("math")(completions=completions, solution=solution) == theirs
