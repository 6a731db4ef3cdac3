"""Exact rational values, with bounds on the size of every number that is built."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from plaudit_math import budget
from plaudit_math.failures import TooLarge, Undefined
from plaudit_math.nodes import Node, contains, substitute

MAX_BITS = 200_000
MAX_FACTORIAL = 3_000
MAX_TERMS = 2_000
MAX_NESTED_TERMS = 100


def rational(node: Node) -> Fraction | None:
    """The value if it is rational and can be found by arithmetic alone, else None.

    Raises TooLarge beyond the bounds and Undefined on division by zero.
    """
    found = _RULES.get(node[0])
    return found(node) if found else None


def _checked(value: Fraction) -> Fraction:
    if value.numerator.bit_length() > MAX_BITS or value.denominator.bit_length() > MAX_BITS:
        raise TooLarge("a number of more than 200,000 bits")
    return value


def _add(node: Node) -> Fraction | None:
    total = Fraction(0)
    for part in node[1:]:
        value = rational(part)
        if value is None:
            return None
        total += value
    return _checked(total)


def _mul(node: Node) -> Fraction | None:
    total = Fraction(1)
    for part in node[1:]:
        value = rational(part)
        if value is None:
            return None
        total = _checked(total * value)
    return total


def _div(node: Node) -> Fraction | None:
    top, below = rational(node[1]), rational(node[2])
    if below == 0:
        raise Undefined("division by zero")
    return None if top is None or below is None else _checked(top / below)


def _neg(node: Node) -> Fraction | None:
    value = rational(node[1])
    return None if value is None else -value


def _pow(node: Node) -> Fraction | None:
    base, exponent = rational(node[1]), rational(node[2])
    if base is None or exponent is None:
        return None
    return power(base, exponent)


def power(base: Fraction, exponent: Fraction) -> Fraction | None:
    """base^exponent if rational; odd roots of negative numbers are real, as in school."""
    if exponent.denominator != 1:
        taken = root(base, exponent.denominator)
        return None if taken is None else power(taken, Fraction(exponent.numerator))
    if base == 0 and exponent < 0:
        raise Undefined("division by zero")
    if base in (0, 1, -1):
        return base ** (2 + exponent.numerator % 2) if exponent else Fraction(1)
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent) * size > MAX_BITS:
        raise TooLarge("a power")
    return base**exponent.numerator


def root(value: Fraction, degree: int) -> Fraction | None:
    """The real root if it is rational."""
    if value < 0:
        taken = root(-value, degree) if degree % 2 else None
        return None if taken is None else -taken
    top, below = _integer_root(value.numerator, degree), _integer_root(value.denominator, degree)
    return None if top is None or below is None else Fraction(top, below)


def _integer_root(value: int, degree: int) -> int | None:
    if value < 2:
        return value
    if degree == 2:
        found = math.isqrt(value)
        return found if found * found == value else None
    if degree > value.bit_length():
        return None
    low, high = 1, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == value else None


def _percent(node: Node) -> Fraction | None:
    value = rational(node[1])
    return None if value is None else value / 100


def _based(node: Node) -> Fraction | None:
    if len(node[1]) > 1000:
        raise TooLarge("a numeral of more than a thousand digits")
    try:
        return Fraction(int(node[1], node[2]))
    except ValueError:
        raise Undefined(f"{node[1]} is no numeral in base {node[2]}") from None


def _series(node: Node) -> Fraction | None:
    name, variable, low, high, body = node
    first, last = rational(low), rational(high)
    if first is None or last is None or first.denominator != 1 or last.denominator != 1:
        return None
    nested = contains(body, "sum", "prod")
    if last - first > (MAX_NESTED_TERMS if nested else MAX_TERMS):
        return None
    total = Fraction(0 if name == "sum" else 1)
    for index in range(int(first), int(last) + 1):
        budget.check()
        value = rational(substitute(body, variable, ("num", Fraction(index))))
        if value is None:
            return None
        total = _checked(total + value if name == "sum" else total * value)
    return total


def _function(node: Node) -> Fraction | None:
    rule = _FUNCTIONS.get(node[1])
    if rule is None:
        return None
    values = [rational(argument) for argument in node[2:]]
    if any(value is None for value in values):
        return None
    try:
        return rule(*values)
    except TypeError:
        return None


def _factorial(value: Fraction) -> Fraction | None:
    if value.denominator != 1 or value < 0:
        return None
    if value > MAX_FACTORIAL:
        raise TooLarge(f"the factorial of {value}" if value < 10**20 else "a factorial")
    return Fraction(math.factorial(int(value)))


def _binomial(top: Fraction, below: Fraction) -> Fraction | None:
    if top.denominator != 1 or below.denominator != 1:
        return None
    if below < 0:
        return Fraction(0)
    if 0 <= top < below:
        return Fraction(0)
    lesser = min(below, top - below) if top >= 0 else below
    if lesser > MAX_FACTORIAL or abs(top) > 10**30:
        raise TooLarge("a binomial coefficient")
    if top >= 0:
        return Fraction(math.comb(int(top), int(below)))
    return Fraction((-1) ** int(below) * math.comb(int(below - top - 1), int(below)))


def _permutations(top: Fraction, below: Fraction) -> Fraction | None:
    if top.denominator != 1 or below.denominator != 1 or not 0 <= below <= top:
        return None
    if below > MAX_FACTORIAL:
        raise TooLarge("a number of arrangements")
    return Fraction(math.perm(int(top), int(below)))


def _modulo(value: Fraction, modulus: Fraction) -> Fraction:
    if modulus == 0:
        raise Undefined("modulo zero")
    return value % modulus


def _whole(rule: Callable[..., int]) -> Callable[..., Fraction | None]:
    def apply(*values: Fraction) -> Fraction | None:
        if any(value.denominator != 1 for value in values):
            return None
        return Fraction(rule(*(int(value) for value in values)))

    return apply


_FUNCTIONS: dict[str, Callable[..., Fraction | None]] = {
    "abs": abs, "floor": lambda value: Fraction(math.floor(value)), "ceil": lambda value: Fraction(math.ceil(value)),
    "factorial": _factorial, "binom": _binomial, "permutations": _permutations, "mod": _modulo,
    "gcd": _whole(math.gcd), "lcm": _whole(math.lcm), "max": max, "min": min, "conj": lambda value: value,
    "Re": lambda value: value, "Im": lambda value: Fraction(0), "round": lambda value: Fraction(round(value)),
    "sign": lambda value: Fraction((value > 0) - (value < 0)),
    "root": lambda value, degree: power(value, 1 / degree) if degree else None,
}  # fmt: skip
_RULES: dict[str, Callable[[Node], Fraction | None]] = {
    "num": lambda node: node[1], "dec": lambda node: node[1], "add": _add, "mul": _mul, "div": _div, "neg": _neg,
    "pow": _pow, "pct": _percent, "based": _based, "sum": _series, "prod": _series, "fn": _function,
}  # fmt: skip
