"""When a decimal stands for an exact number."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from plaudit_math import exact
from plaudit_math.failures import NeedsWorker, TooLarge, Undefined
from plaudit_math.nodes import Node, contains, symbols
from plaudit_math.numeric import Evaluator

MIN_GOLD_DIGITS = 3


class Decimal(NamedTuple):
    """A written decimal: its value, the unit of its last digit, and how many significant digits it shows."""

    value: Fraction
    step: Fraction
    digits: int


def written_decimal(node: Node) -> Decimal | None:
    """0.67, -1.2 × 10^{-5}, 1.41…: None for anything that is no plain decimal."""
    if node[0] == "neg":
        inside = written_decimal(node[1])
        return inside and inside._replace(value=-inside.value)
    if node[0] == "dec":
        step = Fraction(1, 10 ** node[2])
        return Decimal(node[1], step, len(str(abs(node[1] / step))))
    if (
        node[0] == "mul"
        and len(node) == 3
        and node[1][0] == "dec"
        and node[2][0] == "pow"
        and node[2][1] == ("num", 10)
    ):
        try:
            scale = exact.rational(node[2])
        except (TooLarge, Undefined):
            return None
        inside = written_decimal(node[1])
        if inside is None or scale is None:
            return None
        return Decimal(inside.value * scale, inside.step * scale, inside.digits)
    return None


def close(gold: Node, answer: Node, *, min_digits: int, gold_precision: bool) -> bool:
    """May one stand for the other although they are not equal?

    An exact number that has no finite decimal may be written with `min_digits` significant digits, rounded or cut off
    (either way round). With `gold_precision` a decimal gold of three digits or more is met by an exact number, or by a
    decimal of two digits more, that rounds to it.
    """
    if symbols(gold) or symbols(answer):
        return False
    gold_decimal, answer_decimal = written_decimal(gold), written_decimal(answer)
    if gold_decimal and answer_decimal:
        longer = answer_decimal.step * 100 <= gold_decimal.step and gold_decimal.digits >= MIN_GOLD_DIGITS
        return gold_precision and longer and _rounds(answer_decimal.value, gold_decimal)
    if gold_decimal is None and answer_decimal is None:
        return False
    written, other = (gold_decimal, answer) if gold_decimal else (answer_decimal, gold)
    if written is None or contains(other, "dec"):
        return False
    value = _precise(other)
    if value is None or value.denominator == 1:
        return False
    if gold_decimal and gold_precision and written.digits >= MIN_GOLD_DIGITS and _rounds(value, written):
        return True
    if not min_digits or written.digits < min_digits or _finite(other):
        return False
    return _rounds(value, written) or 0 <= abs(value) - abs(written.value) < written.step


def _rounds(value: Fraction, written: Decimal) -> bool:
    return abs(value - written.value) * 2 <= written.step


def _finite(node: Node) -> bool:
    """Is it a rational with a finite decimal?"""
    try:
        value = exact.rational(node)
    except (TooLarge, Undefined):
        return False
    if value is None:
        return False
    rest = value.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest == 1


def _precise(node: Node) -> Fraction | None:
    from plaudit_math.precise import PreciseNumbers

    try:
        value = exact.rational(node)
        if value is not None:
            return value
        found = Evaluator(PreciseNumbers(50), {}, real=True).value(node)
        return Fraction(str(found)) if found is not None else None
    except (Undefined, TooLarge, NeedsWorker, ArithmeticError, ValueError, AttributeError, TypeError):
        return None
