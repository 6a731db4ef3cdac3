"""Are two scalar expressions the same number or the same function?

Exact rationals first; then floats at fixed points, which settle nearly every pair that differs; then fifty and ninety
digits. Expressions too large to evaluate are equal only if they are the same up to the order of terms and factors.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

from plaudit_math import budget, exact, nodes
from plaudit_math.canonical import canonical
from plaudit_math.derive import derivative
from plaudit_math.failures import NeedsWorker, TooLarge, Undefined
from plaudit_math.floats import FloatNumbers
from plaudit_math.nodes import Node
from plaudit_math.numeric import Evaluator

_REAL = FloatNumbers(real=True)
_COMPLEX = FloatNumbers(real=False)
_POINTS = 10
_CLEARLY = 1e-4
_NEARLY = 1e-9
MAX_NODES = 4000


def same_value(left: Node, right: Node) -> bool:
    """True if the two agree wherever both are defined. Raises NeedsWorker if only symbolic mathematics can tell."""
    if left == right:
        return True
    budget.check()
    try:
        first, second = exact.rational(left), exact.rational(right)
    except TooLarge:
        return canonical(left) == canonical(right)
    except Undefined:
        return False
    if first is not None and second is not None:
        return first == second
    if (constants := _infinite(left, right)) is not None:
        return constants
    if sum(1 for _ in nodes.walk(left)) + sum(1 for _ in nodes.walk(right)) > MAX_NODES:
        return canonical(left) == canonical(right)
    if (variable := _primitive(left) or _primitive(right)) is not None:
        return same_value(derivative(left, variable), derivative(right, variable))
    names = sorted(nodes.symbols(left) | nodes.symbols(right))
    try:
        return _agree(left, right, names)
    except (TooLarge, OverflowError):
        return canonical(left) == canonical(right)


def _primitive(node: Node) -> str | None:
    """The variable of an integral without bounds in a sum: what contains one is compared by derivatives."""
    terms = node[1:] if node[0] == "add" else (node,)
    return next((term[1] for term in terms if term[0] == "int" and term[2] is None), None)


def _infinite(left: Node, right: Node) -> bool | None:
    """The verdict on a pair with ∞ or another constant that is no number; None if both are finite expressions."""
    special = [nodes.contains(node, "const") and _special(node) for node in (left, right)]
    if not any(special):
        return None
    return canonical(left) == canonical(right)


def _special(node: Node) -> bool:
    bound = {inner for inner in nodes.walk(node) if inner[0] in ("sum", "prod", "int", "lim")}
    if bound:
        return False
    return any(inner[0] == "const" and inner[1] not in ("π", "e", "i") for inner in nodes.walk(node))


def _agree(left: Node, right: Node, names: list[str]) -> bool:
    domains = _domains(left, right, names)
    for real, points in domains:
        compared = 0
        for point in points:
            verdict = _at(left, right, point, real)
            if verdict is False:
                return False
            if verdict is not None:
                compared += 1
            if compared >= (1 if not names else _POINTS // 2):
                return _confirmed(left, right, points, real)
        if compared >= min(2, len(points)):
            return _confirmed(left, right, points, real)
    return False


def _domains(left: Node, right: Node, names: list[str]) -> Iterator[tuple[bool, list[dict[str, Any]]]]:
    imaginary = any(inner == nodes.IMAGINARY for node in (left, right) for inner in nodes.walk(node))
    if not names:
        if not imaginary:
            yield True, [{}]
        yield False, [{}]
        return
    points = _points(names)
    if not imaginary:
        yield True, points
        yield True, _whole_points(names)
    yield False, points


def _points(names: list[str]) -> list[dict[str, float]]:
    """Fixed points: the first ones positive, the last ones of either sign. The same in every process."""
    return _fixed_points(tuple(names))


@lru_cache(maxsize=512)
def _fixed_points(names: tuple[str, ...]) -> list[dict[str, float]]:
    source = random.Random(20_250_613)
    rows = []
    for row in range(_POINTS):
        values = [round(source.uniform(0.3, 2.9), 6) for _ in names]
        if row % 2:
            values = [value if source.random() < 0.4 else -value for value in values]
        rows.append(dict(zip(names, values, strict=True)))
    return rows


def _whole_points(names: list[str]) -> list[dict[str, float]]:
    """Natural numbers, for expressions that live on them: (-1)^n, n!."""
    return [{name: float(row + 2 + 3 * place) for place, name in enumerate(names)} for row in range(6)]


def _at(left: Node, right: Node, point: dict[str, Any], real: bool) -> bool | None:
    """Do they agree at one point, as far as floats can tell? None where one of them is not defined."""
    numbers = _REAL if real else _COMPLEX
    try:
        evaluator = Evaluator(numbers, point, real=real)
        first, second = evaluator.value(left), evaluator.value(right)
    except (Undefined, ZeroDivisionError, ValueError, AttributeError, TypeError):
        return None
    except (OverflowError, TooLarge):
        return _precisely(left, right, point, real)
    size = max(abs(first), abs(second))
    gap = abs(first - second)
    if gap != gap or size == float("inf"):
        return _precisely(left, right, point, real)
    if gap > _CLEARLY * size and size > _NEARLY:
        return False
    return True if gap <= _NEARLY * size else _precisely(left, right, point, real)


def _confirmed(left: Node, right: Node, points: list[dict[str, Any]], real: bool) -> bool:
    """The same with many digits, at the first two points where both are defined."""
    confirmed = 0
    for point in points:
        verdict = _precisely(left, right, point, real)
        if verdict is False:
            return False
        confirmed += verdict is True
        if confirmed == 2 or (confirmed and not point):
            return True
    return confirmed > 0


def _precisely(left: Node, right: Node, point: dict[str, Any], real: bool) -> bool | None:
    """With 50 digits and with 90: a true difference stays as it is, rounding shrinks."""
    coarse = _gap(left, right, point, real, 50)
    if coarse is None:
        return None
    fine = _gap(left, right, point, real, 90)
    if fine is None:
        return None
    gap, size = fine
    return bool(gap == 0 or gap <= size * 10**-70 or (coarse[0] > 0 and gap <= coarse[0] * 10**-25))


def _gap(left: Node, right: Node, point: dict[str, Any], real: bool, digits: int) -> tuple[Any, Any] | None:
    from plaudit_math.precise import PreciseNumbers

    numbers = PreciseNumbers(digits)
    values = {name: numbers.rational(Fraction(str(value))) for name, value in point.items()}
    evaluator = Evaluator(numbers, values, real=real)
    try:
        first, second = evaluator.value(left), evaluator.value(right)
    except (Undefined, ZeroDivisionError, ValueError, AttributeError):
        return None
    except TypeError:
        return None
    return abs(first - second), max(abs(first), abs(second))


def real_value(node: Node) -> float | None:
    """The value as a float if the expression is a real constant, for putting numbers in order."""
    if node == nodes.INFINITY:
        return float("inf")
    if node == nodes.negate(nodes.INFINITY):
        return float("-inf")
    try:
        found = Evaluator(_REAL, {}, real=True).value(node)
    except (Undefined, TooLarge, NeedsWorker, ArithmeticError, ValueError, AttributeError, TypeError):
        return None
    return float(found) if isinstance(found, (int, float)) else None


def proportional(left: Node, right: Node) -> float | None:
    """c if left = c · right for one constant c ≠ 0 (to about nine digits), else None."""
    names = sorted(nodes.symbols(left) | nodes.symbols(right))
    for real in (True, False):
        numbers = _REAL if real else _COMPLEX
        ratios = []
        for point in _points(names):
            evaluator = Evaluator(numbers, point, real=real)
            try:
                first, second = evaluator.value(left), evaluator.value(right)
            except (Undefined, ArithmeticError, ValueError, AttributeError, TypeError):
                continue
            if abs(second) < 1e-12 or abs(first) < 1e-12:
                if abs(first - second) > 1e-9:
                    return None
                continue
            ratios.append(first / second)
        if len(ratios) >= 3:
            return _one_ratio(ratios)
    return None


def _one_ratio(ratios: list[Any]) -> float | None:
    first = ratios[0]
    if any(abs(ratio - first) > 1e-8 * abs(first) for ratio in ratios):
        return None
    return first.real if isinstance(first, complex) else first
