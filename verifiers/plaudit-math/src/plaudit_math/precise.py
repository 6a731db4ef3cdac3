"""mpmath numbers in a context of this thread's own: any precision, no shared state."""

from __future__ import annotations

import threading
from fractions import Fraction
from functools import partial
from typing import Any

from plaudit_math.failures import TooLarge
from plaudit_math.floats import shared_function

_LOCAL = threading.local()
MAX_ARGUMENT = 10**12
MAX_BITS = 600_000


class PreciseNumbers:
    """The functions of `FloatNumbers` with `digits` decimal digits."""

    max_log = 4e5

    def __init__(self, digits: int) -> None:
        context = getattr(_LOCAL, "context", None)
        if context is None:
            import mpmath

            context = _LOCAL.context = mpmath.MPContext()
        context.dps = digits
        self.context = context
        self.complex_type = context.mpc
        self.constants = {"π": +context.pi, "e": +context.e, "i": context.mpc(0, 1)}
        names = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arsinh": "asinh", "arcosh": "acosh",
                 "artanh": "atanh", "ln": "ln"}  # fmt: skip
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "erf"):
            setattr(self, name, partial(self._bounded, getattr(context, name)))
        for ours, theirs in names.items():
            setattr(self, ours, partial(self._bounded, getattr(context, theirs)))

    @staticmethod
    def _bounded(function: Any, value: Any) -> Any:
        if abs(value) > MAX_ARGUMENT:
            raise TooLarge("the argument of a function")
        return function(value)

    def rational(self, value: Fraction) -> Any:
        return self.context.mpf(value.numerator) / value.denominator

    def bounded(self, value: Any) -> bool:
        return bool(value == 0 or self.context.mag(value) < MAX_BITS)

    def power(self, base: Any, exponent: Any) -> Any:
        return self.context.power(base, exponent)

    def short(self, value: Any) -> str:
        return str(self.context.nstr(value, 20))

    def log(self, value: Any, base: Any = 10) -> Any:
        return self.context.ln(value) / self.context.ln(base)

    def root(self, value: Any, degree: Any) -> Any:
        return self.context.power(value, 1 / self.context.mpf(degree)) if value != 0 else value

    def factorial(self, value: Any) -> Any:
        if abs(value) > 10**4:
            raise TooLarge("a factorial")
        return self.context.gamma(value + 1)

    def binom(self, top: Any, below: Any) -> Any:
        if abs(top) > 10**6 or abs(below) > 10**4:
            raise TooLarge("a binomial coefficient")
        return self.context.binomial(top, below)

    def phase(self, value: Any) -> Any:
        return self.context.arg(value)

    def floor(self, value: Any) -> Any:
        return self.context.floor(value)

    def ceil(self, value: Any) -> Any:
        return self.context.ceil(value)

    def __getattr__(self, name: str) -> Any:
        return shared_function(self, name)
