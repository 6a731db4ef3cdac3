"""Repeating decimals as they are written."""

from __future__ import annotations

from plaudit_math import nodes
from plaudit_math.failures import Unreadable
from plaudit_math.nodes import Node


def repeating_decimal(text: str) -> Node:
    """0.8\\overline{3}, 0.(3), 0.333… as an exact number."""
    whole, _, rest = text.partition(".")
    dots = rest.endswith(("...", "dots", "…"))
    if dots:
        digits = rest.rstrip(".…").removesuffix("\\ldots").removesuffix("\\cdots").removesuffix("\\dots")
        period = digits[-1]
        return nodes.repeating(whole, digits.rstrip(period), period)
    fixed = "".join(character for character in rest.partition("\\")[0].partition("(")[0] if character.isdigit())
    period = "".join(character for character in rest[len(fixed) :] if character.isdigit())
    if not period:
        raise Unreadable(f"the repeating decimal {text!r}")
    return nodes.repeating(whole, fixed, period)
