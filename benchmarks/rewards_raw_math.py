"""A math verifier as many are written: math-verify with its own timeouts off, because they need the main thread."""

from __future__ import annotations

from typing import Any

from math_verify import parse, verify
from plaudit import verifier


@verifier(executor="process", timeout_s=5.0)
def raw_math(completion: str, solution: Any) -> float:
    """1.0 where math-verify finds the answer equal to the solution."""
    gold = parse(solution, parsing_timeout=None)
    answer = parse(completion, parsing_timeout=None)
    return float(verify(gold, answer, timeout_seconds=None))
