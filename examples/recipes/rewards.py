"""Rewards of the recipes that no plugin brings: a batch of completions in, a score for each out."""

from __future__ import annotations

import re
from typing import Any

from plaudit import completion_text, reward

WHOLE = re.compile(r"\s*<reasoning>(.+?)</reasoning>\s*<answer>(.+?)</answer>\s*", re.DOTALL)
BLOCK = re.compile(r"^```python\n.*?^```\s*$", re.DOTALL | re.MULTILINE)


@reward(granularity="rollout", deterministic=True)
def whole_format(completions: list[Any], **_: Any) -> list[float]:
    """1 when the completion is one reasoning block and one answer block, each filled, and nothing else."""
    texts = [completion_text(completion) for completion in completions]
    return [
        float(WHOLE.fullmatch(text) is not None and text.count("<reasoning>") == text.count("<answer>") == 1)
        for text in texts
    ]


@reward(granularity="rollout", deterministic=True)
def one_code_block(completions: list[Any], **_: Any) -> list[float]:
    """1 for exactly one ```python block with nothing behind it, ½ when something follows, 0 for none or several."""
    scores = []
    for completion in completions:
        text = completion_text(completion)
        found = list(BLOCK.finditer(text))
        scores.append(0.0 if len(found) != 1 else 1.0 if not text[found[0].end() :].strip() else 0.5)
    return scores


@reward(granularity="rollout", deterministic=True)
def used_tools(completions: list[Any], **_: Any) -> list[float]:
    """1 when a tool answered without an error at least once before the last turn."""
    return [
        float(any(message["role"] == "tool" and "error" not in str(message["content"]) for message in completion))
        for completion in completions
    ]
