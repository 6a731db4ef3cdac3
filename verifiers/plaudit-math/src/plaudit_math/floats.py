"""Python floats as the numbers of an `Evaluator`, over the reals or the complex plane."""

from __future__ import annotations

import cmath
import math
from fractions import Fraction
from typing import Any

from plaudit_math.failures import TooLarge
from plaudit_math.numeric import MAX_MAGNITUDE


class FloatNumbers:
    """Python floats; `real` chooses math or cmath."""

    complex_type = complex
    max_log = 690.0

    def __init__(self, *, real: bool) -> None:
        module: Any = math if real else cmath
        self.constants = {"π": math.pi, "e": math.e, "i": 1j}
        for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp"):
            setattr(self, name, getattr(module, name))
        for ours, theirs in {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arsinh": "asinh",
                             "arcosh": "acosh", "artanh": "atanh", "ln": "log"}.items():  # fmt: skip
            setattr(self, ours, getattr(module, theirs))
        self.module = module

    @staticmethod
    def rational(value: Fraction) -> float:
        try:
            return float(value)
        except OverflowError:
            raise TooLarge("a number beyond floats") from None

    @staticmethod
    def bounded(value: Any) -> bool:
        return bool(abs(value) < MAX_MAGNITUDE)

    @staticmethod
    def power(base: Any, exponent: Any) -> Any:
        return base**exponent

    @staticmethod
    def short(value: Any) -> str:
        return f"{value:.9g}" if isinstance(value, float) else f"{complex(value):.9g}"

    def log(self, value: Any, base: Any = 10.0) -> Any:
        return self.module.log(value) / self.module.log(base)

    def root(self, value: Any, degree: Any) -> Any:
        return complex(value) ** (1 / degree) if value != 0 else 0.0

    def factorial(self, value: Any) -> Any:
        return math.gamma(value + 1)

    def binom(self, top: Any, below: Any) -> Any:
        if below == int(below) and 0 <= below <= 100:
            total = 1.0
            for step in range(int(below)):
                total *= (top - step) / (step + 1)
            return total
        return math.gamma(top + 1) / (math.gamma(below + 1) * math.gamma(top - below + 1))

    def __getattr__(self, name: str) -> Any:
        function = shared_function(self, name)
        setattr(self, name, function)
        return function


def shared_function(numbers: Any, name: str) -> Any:
    """Functions that are put together from those above, for either kind of number."""
    rules = {
        "cot": lambda x: 1 / numbers.tan(x), "sec": lambda x: 1 / numbers.cos(x), "csc": lambda x: 1 / numbers.sin(x),
        "coth": lambda x: 1 / numbers.tanh(x), "sech": lambda x: 1 / numbers.cosh(x),
        "csch": lambda x: 1 / numbers.sinh(x), "abs": abs, "cbrt": lambda x: numbers.root(x, 3),
        "arccot": lambda x: numbers.constants["π"] / 2 - numbers.arctan(x), "arcsec": lambda x: numbers.arccos(1 / x),
        "arccsc": lambda x: numbers.arcsin(1 / x), "lg": lambda x: numbers.log(x), "Im": lambda x: x.imag,
        "lb": lambda x: numbers.log(x, 2), "conj": lambda x: x.conjugate(), "Re": lambda x: x.real,
        "floor": math.floor, "ceil": math.ceil, "mod": lambda x, m: x % m, "max": max, "min": min,
        "sign": lambda x: (x > 0) - (x < 0), "arg": lambda x: numbers.phase(x), "phase": cmath.phase,
        "permutations": lambda n, k: numbers.binom(n, k) * numbers.factorial(k),
    }  # fmt: skip
    if name in rules:
        return rules[name]
    raise AttributeError(name)
