"""Numeric values of scalar nodes, in floats or with any precision, over the reals or the complex plane."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from plaudit_math import budget, exact
from plaudit_math.failures import NeedsWorker, TooLarge, Undefined
from plaudit_math.nodes import Node, contains, substitute

MAX_MAGNITUDE = 1e300
MAX_TERMS = 2_000
MAX_NESTED_TERMS = 100


class Evaluator:
    """Values of nodes under an assignment of the variables.

    `numbers` supplies the functions (`floats.FloatNumbers`, `precise.PreciseNumbers`). Over the reals a step that
    leaves them (log of a negative number) raises Undefined; odd roots of negative numbers are real.
    """

    def __init__(self, numbers: Any, values: Mapping[str, Any], *, real: bool) -> None:
        self.numbers = numbers
        self.values = values
        self.real = real

    def value(self, node: Node) -> Any:
        """Raises Undefined, TooLarge, NeedsWorker."""
        tag = node[0]
        if tag == "num" or tag == "dec":
            return self.numbers.rational(node[1])
        if tag == "sym":
            if node[1] not in self.values:
                raise Undefined(f"no value for {node[1]}")
            return self.values[node[1]]
        rule = getattr(self, f"on_{tag}", None)
        if rule is None:
            raise Undefined(f"a {tag} is no number")
        found = rule(node)
        if self.real and isinstance(found, (complex, self.numbers.complex_type)):
            if abs(found.imag) > 1e-12 * abs(found):
                raise Undefined("not real")
            found = found.real
        return found

    def on_const(self, node: Node) -> Any:
        if node[1] == "i" and self.real:
            raise Undefined("i is not real")
        found = self.numbers.constants.get(node[1])
        if found is None:
            raise Undefined(f"{node[1]} is no number")
        return found

    def on_add(self, node: Node) -> Any:
        return sum(self.value(part) for part in node[1:])

    def on_mul(self, node: Node) -> Any:
        total = self.value(node[1])
        for part in node[2:]:
            total = total * self.value(part)
        return self.bounded(total)

    def on_div(self, node: Node) -> Any:
        below = self.value(node[2])
        if below == 0:
            raise Undefined("division by zero")
        return self.value(node[1]) / below

    def on_neg(self, node: Node) -> Any:
        return -self.value(node[1])

    def on_pct(self, node: Node) -> Any:
        return self.value(node[1]) / 100

    def on_qty(self, node: Node) -> Any:
        """A plain number with a unit; degrees are turned into radians."""
        value = self.value(node[1])
        return value * self.numbers.constants["π"] / 180 if node[2].dimensions == (("angle", 1),) else value

    def on_based(self, node: Node) -> Any:
        value = exact.rational(node)
        return self.numbers.rational(value if value is not None else Fraction(0))

    def on_pow(self, node: Node) -> Any:
        base = self.value(node[1])
        odd = _odd_root(node[2])
        if odd is not None and self.real and base < 0:
            return self.power(-base, self.value(node[2])) * (-1) ** odd
        return self.power(base, self.value(node[2]))

    def power(self, base: Any, exponent: Any) -> Any:
        if base == 0:
            if exponent == 0:
                return self.numbers.rational(Fraction(1))
            if getattr(exponent, "real", exponent) > 0:
                return base
            raise Undefined("a negative power of zero")
        size = abs(base)
        if (
            size != 1
            and abs(exponent) * abs(math.log(size) if 1e-300 < size < MAX_MAGNITUDE else 700) > self.numbers.max_log
        ):
            raise TooLarge("a power")
        if self.real and base < 0 and exponent != int(exponent):
            raise Undefined("a broken power of a negative number")
        return self.numbers.power(base, exponent)

    def on_sum(self, node: Node) -> Any:
        values = [self.value(term) for term in self.terms(node)]
        return sum(values, self.numbers.rational(Fraction(0)))

    def on_prod(self, node: Node) -> Any:
        total = self.numbers.rational(Fraction(1))
        for term in self.terms(node):
            total = self.bounded(total * self.value(term))
        return total

    def terms(self, node: Node) -> list[Node]:
        first, last = self.whole(node[2]), self.whole(node[3])
        budget.check()
        if last - first > (MAX_NESTED_TERMS if contains(node[4], "sum", "prod") else MAX_TERMS):
            raise NeedsWorker("a long sum")
        return [substitute(node[4], node[1], ("num", Fraction(index))) for index in range(first, last + 1)]

    def whole(self, node: Node) -> int:
        if node == ("const", "∞"):
            raise NeedsWorker("an infinite sum")
        value = self.value(node)
        if value != int(value):
            raise Undefined("the bound of a sum is no integer")
        return int(value)

    def on_int(self, node: Node) -> Any:
        raise NeedsWorker("an integral")

    def on_lim(self, node: Node) -> Any:
        raise NeedsWorker("a limit")

    def on_deriv(self, node: Node) -> Any:
        from plaudit_math.derive import derivative

        body = node[1]
        for _ in range(node[3]):
            body = derivative(body, node[2])
        return self.value(body)

    def on_fn(self, node: Node) -> Any:
        name, arguments = node[1], node[2:]
        if name.startswith("call ") or name in _OPAQUE:
            return self.opaque(name, arguments)
        if name == "det" and arguments[0][0] == "matrix":
            from plaudit_math.matrices import determinant

            return self.value(determinant(arguments[0]))
        if name == "root" and self.real:
            return self.real_root(*arguments)
        values = [self.value(argument) for argument in arguments]
        rule = getattr(self.numbers, name, None)
        if rule is None:
            return self.opaque(name, arguments)
        try:
            return rule(*values)
        except (ValueError, TypeError) as error:
            raise Undefined(f"{name}: {error}") from None

    def real_root(self, argument: Node, degree: Node) -> Any:
        value, order = self.value(argument), self.value(degree)
        if order == 0:
            raise Undefined("a root of degree zero")
        if value < 0:
            if order != int(order) or int(order) % 2 == 0:
                raise Undefined("an even root of a negative number")
            return -self.power(-value, 1 / order)
        return self.power(value, 1 / order)

    def opaque(self, name: str, arguments: tuple[Node, ...]) -> Any:
        """An unknown function: a value fixed by its name and the values of its arguments, different for others."""
        from plaudit_math.canonical import canonical

        parts = [name]
        for argument in arguments:
            try:
                parts.append(self.numbers.short(self.value(argument)))
            except Undefined:
                parts.append(repr(canonical(argument)))
        if name in _COMMUTING:
            parts[1:] = sorted(parts[1:])
        digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
        return self.numbers.rational(Fraction(int.from_bytes(digest), 2**64) + Fraction(1, 2))

    def bounded(self, value: Any) -> Any:
        if not self.numbers.bounded(value):
            raise TooLarge("a product")
        return value


_COMMUTING = frozenset(["gcd", "lcm", "max", "min"])
_OPAQUE = frozenset(["given", "⋆", "∘", "norm"])


def _odd_root(exponent: Node) -> int | None:
    """The numerator if the exponent is a fraction with an odd denominator above 1."""
    if exponent[0] not in ("div", "neg", "num"):
        return None
    value = exact.rational(exponent)
    if value is None or value.denominator == 1 or value.denominator % 2 == 0:
        return None
    return value.numerator
