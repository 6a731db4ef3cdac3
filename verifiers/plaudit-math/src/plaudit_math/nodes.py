"""The normal form of an answer: nested tuples, tag first. Hashable, picklable, compared with ==.

Scalars     ("num", Fraction) · ("dec", Fraction, places) · ("sym", name) · ("const", "π" | "e" | "i" | "∞")
            ("add", a, b…) · ("mul", a, b…) · ("div", a, b) · ("neg", a) · ("pow", a, b) · ("pm", ±1, a)
            ("fn", name, a…) · ("pct", a) · ("qty", a, Unit) · ("sum" | "prod", variable, low, high, body)
            ("int", variable, low | None, high | None, body) · ("lim", variable, to, side, body)
            ("deriv", a, variable, n)
            ("based", digits, base)
Structures  ("list", joined_by, items) · ("tuple", items) · ("set", items) · ("bracket", items) · ("matrix", rows)
            ("interval", open_left, low, high, open_right) · ("union" | "meet" | "minus", a, b) · ("ratio", parts)
            ("rel", operators, sides) · ("cong", left | None, residue, modulus) · ("logic", operator, a, b…)
            ("cases", rows) · ("bound", operator, a) · ("text", words) · ("choice", letter, value | None)
            ("date", year | None, month, day) · ("time", h, m, s, "a" | "p" | "") · ("quant", sign, a)
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from plaudit_math.failures import TooLarge
from plaudit_math.naming import names

Node = tuple[Any, ...]
MAX_DIGITS = 4000
"""Longer literals are refused: turning digits into an integer takes time quadratic in their number."""

SCALARS = names("num dec sym const add mul div neg pow pm fn pct qty sum prod int lim deriv based")
ZERO: Node = ("num", Fraction(0))
ONE: Node = ("num", Fraction(1))
PI: Node = ("const", "π")
IMAGINARY: Node = ("const", "i")
INFINITY: Node = ("const", "∞")


def number(text: str) -> Node:
    """A literal such as 12, 0.50, .5 or 1.2e-5."""
    if len(text) > MAX_DIGITS:
        raise TooLarge(f"a number of {len(text)} digits")
    mantissa, mark, exponent = text.lower().partition("e")
    if mark and abs(int(exponent)) > MAX_DIGITS:
        raise TooLarge(f"the exponent of {text}")
    value = Fraction(text)
    _whole, dot, digits = mantissa.partition(".")
    if not dot and not mark:
        return ("num", value)
    return ("dec", value, max(0, len(digits) - int(exponent or 0)))


def integer(value: int) -> Node:
    return ("num", Fraction(value))


def is_integer(node: Node) -> bool:
    return node[0] == "num" and node[1].denominator == 1


def repeating(whole: str, fixed: str, period: str) -> Node:
    """0.8(3) = 5/6 as an exact number."""
    if len(fixed) + len(period) > MAX_DIGITS:
        raise TooLarge("a long repeating decimal")
    scale = 10 ** len(fixed)
    value = Fraction(int(whole or "0")) + Fraction(int(fixed or "0"), scale)
    return ("num", value + Fraction(int(period), scale * (10 ** len(period) - 1)))


def add(*terms: Node) -> Node:
    return terms[0] if len(terms) == 1 else ("add", *terms)


def multiply(*factors: Node) -> Node:
    return factors[0] if len(factors) == 1 else ("mul", *factors)


def negate(node: Node) -> Node:
    """-a, folded into a literal."""
    if node[0] == "num":
        return ("num", -node[1])
    if node[0] == "dec":
        return ("dec", -node[1], node[2])
    return ("neg", node)


def subtract(left: Node, right: Node) -> Node:
    return ("add", left, negate(right))


def children(node: Node) -> Iterator[Node]:
    """Every node directly inside."""
    for part in node[1:]:
        if isinstance(part, tuple) and part:
            if isinstance(part[0], str) and part[0] in TAGS:
                yield part
            elif isinstance(part[0], tuple):
                for inner in part:
                    if isinstance(inner, tuple) and inner:
                        if isinstance(inner[0], str):
                            yield inner
                        else:
                            yield from inner


def walk(node: Node) -> Iterator[Node]:
    """The node and everything inside it."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(children(current))


def contains(node: Node, *tags: str) -> bool:
    return any(inner[0] in tags for inner in walk(node))


def symbols(node: Node) -> set[str]:
    """Names of the free variables. Bound ones (of sums, products, definite integrals, limits) are left out."""
    if node[0] == "sym":
        return {node[1]}
    if node[0] in ("sum", "prod", "lim") or (node[0] == "int" and node[2] is not None):
        inside = set[str]().union(*(symbols(child) for child in children(node)))
        return inside - {node[1]}
    found: set[str] = set()
    for child in children(node):
        found |= symbols(child)
    return found


def substitute(node: Node, name: str, value: Node) -> Node:
    """The node with every free `name` replaced."""
    if node == ("sym", name):
        return value
    if node[0] in ("num", "dec", "sym", "const", "based", "text"):
        return node
    return tuple(_substitute_part(part, name, value) for part in node)


def _substitute_part(part: Any, name: str, value: Node) -> Any:
    if not isinstance(part, tuple) or not part:
        return part
    if isinstance(part[0], str) and part[0] in TAGS:
        return substitute(part, name, value)
    if isinstance(part[0], tuple):
        return tuple(_substitute_part(inner, name, value) for inner in part)
    return part


STRUCTURES = names(
    "list tuple set bracket matrix interval union meet minus ratio rel cong logic cases bound text choice date "
    "time quant"
)  # fmt: skip
TAGS = SCALARS | STRUCTURES
