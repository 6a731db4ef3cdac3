"""Numeric integrals, limits and long sums, by mpmath. Only called inside a worker process, where time is limited."""

from __future__ import annotations

from typing import Any

from plaudit_math import nodes
from plaudit_math.failures import NeedsWorker, TooLarge, Undefined
from plaudit_math.nodes import Node
from plaudit_math.numeric import Evaluator
from plaudit_math.precise import PreciseNumbers

DIGITS = 25
_POINTS = (0.7, 1.3, 2.1)


class OperatorEvaluator(Evaluator):
    """Evaluates what `Evaluator` leaves to the worker. `certain` falls where no error is known."""

    certain = True

    def power(self, base: Any, exponent: Any) -> Any:
        """Far out in an integral a falling exponential is zero."""
        try:
            return super().power(base, exponent)
        except TooLarge:
            if (exponent < 0) == (abs(base) > 1):
                return self.numbers.context.zero
            raise

    def bound(self, node: Node) -> Any:
        if node == nodes.INFINITY:
            return self.numbers.context.inf
        if node == nodes.negate(nodes.INFINITY):
            return self.numbers.context.ninf
        return self.value(node)

    def body(self, node: Node, variable: str) -> Any:
        def function(at: Any) -> Any:
            inner = OperatorEvaluator(self.numbers, {**self.values, variable: at}, real=self.real)
            return inner.value(node)

        return function

    def on_int(self, node: Node) -> Any:
        _, variable, low, high, body = node
        if low is None:
            raise NeedsWorker("an integral without bounds")
        context = self.numbers.context
        value, error = context.quad(self.body(body, variable), [self.bound(low), self.bound(high)], error=True)
        if error > 1e-12 * max(1, abs(value)):
            self.certain = False
        return value

    def on_lim(self, node: Node) -> Any:
        _, variable, to, side, body = node
        self.certain = False
        target = self.bound(to)
        infinite = abs(target) == self.numbers.context.inf
        return self.numbers.context.limit(
            self.body(body, variable), target, direction=-1 if side < 0 else 1, exp=infinite
        )

    def on_sum(self, node: Node) -> Any:
        _, variable, low, high, body = node
        if high != nodes.INFINITY:
            return super().on_sum(node)
        self.certain = False
        return self.numbers.context.nsum(self.body(body, variable), [self.bound(low), self.numbers.context.inf])


def same(left: Node, right: Node) -> bool | None:
    """Equal to fifteen digits at every point? None where numbers cannot tell."""
    numbers = PreciseNumbers(DIGITS)
    names = sorted(nodes.symbols(left) | nodes.symbols(right))
    for point in _POINTS if names else _POINTS[:1]:
        values = {name: numbers.context.mpf(point + place / 7) for place, name in enumerate(names)}
        evaluator = OperatorEvaluator(numbers, values, real=True)
        try:
            first, second = evaluator.value(left), evaluator.value(right)
        except (Undefined, NeedsWorker, ArithmeticError, ValueError, TypeError, AttributeError):
            return None
        gap, size = abs(first - second), max(abs(first), abs(second))
        if gap <= size * 1e-13:
            continue
        return False if evaluator.certain and gap > size * 1e-6 else None
    return True
