"""Arithmetic written by a model: parsed and computed exactly, never run as code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

MAX_CHARACTERS = 1000
MAX_DEPTH = 50
_SPELLINGS = (
    (r"\\left|\\right|\\,|\\;|\$", ""),
    (r"\\(?:times|cdot|ast)|[×·∙⋅∗•]", "*"),
    (r"\\div|[÷∕⁄]", "/"),
    (r"[−–—‒]", "-"),
    (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"((\1)/(\2))"),
    (r"(?<=[\d)\s])[xX](?=[\d(\s])", "*"),
    (r"[\[{]", "("),
    (r"[\]}]", ")"),
)
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|(\*\*|[-+*/()]))")


class BadExpression(ValueError):
    """The text is not an arithmetic expression, or has no value; the message says why."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An expression's exact value, and the numbers that stand in it, in order."""

    value: Fraction
    numbers: tuple[Fraction, ...]


def evaluate(text: str, *, signs: bool = False) -> Evaluated:
    """The value of an expression of numbers, `+ - * /` and brackets, also as LaTeX or Unicode writes them.

    `signs`: a number or bracket may carry a sign of its own. Raises BadExpression.
    """
    if len(text) > MAX_CHARACTERS:
        raise BadExpression(f"longer than {MAX_CHARACTERS} characters")
    for pattern, spelling in _SPELLINGS:
        text = re.sub(pattern, spelling, text)
    parser = _Parser(list(_tokens(text.strip())), signs)
    value = parser.sum(0)
    if parser.place < len(parser.tokens):
        raise BadExpression(f"{parser.tokens[parser.place]!r} is not expected there")
    return Evaluated(value, tuple(parser.numbers))


def _tokens(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None:
            raise BadExpression(f"{text[place : place + 10].strip()!r} is no number, operator or bracket")
        yield found[1] or found[2]
        place = found.end()


class _Parser:
    """Recursive descent over the tokens."""

    def __init__(self, tokens: list[str], signs: bool) -> None:
        self.tokens, self.signs = tokens, signs
        self.place = 0
        self.numbers: list[Fraction] = []

    def sum(self, depth: int) -> Fraction:
        value = self._product(depth)
        while self._next() in ("+", "-"):
            operator = self._take()
            right = self._product(depth)
            value = value + right if operator == "+" else value - right
        return value

    def _product(self, depth: int) -> Fraction:
        value = self._atom(depth)
        while self._next() in ("*", "/"):
            operator = self._take()
            right = self._atom(depth)
            if operator == "/" and right == 0:
                raise BadExpression("a division by zero")
            value = value * right if operator == "*" else value / right
        return value

    def _atom(self, depth: int) -> Fraction:
        if depth > MAX_DEPTH:
            raise BadExpression(f"brackets more than {MAX_DEPTH} deep")
        token = self._take()
        if token == "(":
            value = self.sum(depth + 1)
            if self._take() != ")":
                raise BadExpression("a bracket is not closed")
            return value
        if self.signs and token in ("+", "-"):
            value = self._atom(depth + 1)
            return -value if token == "-" else value
        if token and (token[0].isdigit() or token[0] == "."):
            self.numbers.append(Fraction(token))
            return self.numbers[-1]
        raise BadExpression(f"{token!r} is not expected there" if token else "it ends too early")

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._next()
        self.place += 1
        return token


def shown(value: Fraction) -> str:
    """An exact value as a decimal of at most ten digits behind the point, or as a fraction where that is not exact."""
    if value.denominator == 1:
        return str(value.numerator)
    decimal = f"{value.numerator / value.denominator:.10f}".rstrip("0").rstrip(".") if abs(value) < 10**15 else ""
    return decimal if decimal and Fraction(decimal) == value else f"{value.numerator}/{value.denominator}"
