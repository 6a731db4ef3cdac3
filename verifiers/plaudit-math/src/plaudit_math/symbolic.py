"""Symbolic mathematics, only ever called inside a worker process."""

from __future__ import annotations

from typing import Any

from plaudit_math import nodes, operators
from plaudit_math.failures import NeedsWorker
from plaudit_math.naming import names
from plaudit_math.nodes import Node

DIGITS = 30


def same(left: Node, right: Node) -> bool:
    """Integrals, limits, infinite sums and what contains them: by numbers, else by sympy's simplification."""
    if left[0] == "rel" and right[0] == "rel":
        left, right = nodes.subtract(*left[2]), nodes.subtract(*right[2])
    told = operators.same(left, right)
    return told if told is not None else _simplified_same(left, right)


def _simplified_same(left: Node, right: Node) -> bool:
    import sympy

    first, second = to_sympy(left), to_sympy(right)
    difference = first.doit() - second.doit()
    if not difference.free_symbols:
        value = sympy.N(difference, DIGITS)
        size = max(1, abs(sympy.N(first, 15)))
        return bool(value.is_number and abs(value) < size * sympy.Float(10) ** (5 - DIGITS))
    constants = [symbol for symbol in difference.free_symbols if symbol.name in ("C", "c", "K", "C_1")]
    simplified = sympy.simplify(difference)
    return simplified == 0 or (bool(constants) and not (simplified.free_symbols - set(constants)))


def library_same(left: str, right: str) -> bool:
    """math-verify's own verdict, given only if both texts parse and both orders agree."""
    from math_verify import parse, verify

    first = parse(f"${left}$", parsing_timeout=None)
    second = parse(f"${right}$", parsing_timeout=None)
    if not first or not second or isinstance(first[0], str) or isinstance(second[0], str):
        return False
    return bool(verify(first, second, timeout_seconds=None) and verify(second, first, timeout_seconds=None))


def to_sympy(node: Node) -> Any:
    """The sympy expression of a scalar node. Raises NeedsWorker (it cannot be told) where sympy has no match."""
    import sympy

    tag = node[0]
    if tag in ("num", "dec"):
        return sympy.Rational(node[1].numerator, node[1].denominator)
    if tag == "sym":
        return sympy.Symbol(node[1], real=True)
    if tag == "const":
        return {"π": sympy.pi, "e": sympy.E, "i": sympy.I, "∞": sympy.oo}[node[1]]
    if tag == "add":
        return sympy.Add(*(to_sympy(part) for part in node[1:]))
    if tag == "mul":
        return sympy.Mul(*(to_sympy(part) for part in node[1:]))
    if tag == "neg":
        return -to_sympy(node[1])
    if tag == "div":
        return to_sympy(node[1]) / to_sympy(node[2])
    if tag == "pow":
        return to_sympy(node[1]) ** to_sympy(node[2])
    if tag == "pct":
        return to_sympy(node[1]) / 100
    if tag in ("sum", "prod", "int", "lim", "deriv"):
        return _operator(node)
    if tag == "fn":
        return _function(node)
    raise NeedsWorker(f"sympy has no {tag}")


def _operator(node: Node) -> Any:
    import sympy

    tag = node[0]
    if tag == "deriv":
        return sympy.diff(to_sympy(node[1]), sympy.Symbol(node[2], real=True), node[3])
    variable, first, second = node[1:4]
    symbol = sympy.Symbol(variable, real=True)
    body = to_sympy(node[4])
    if tag == "lim":
        side = {1: "+", -1: "-", 0: "+-"}[node[3]]
        target = to_sympy(node[2])
        return sympy.limit(body, symbol, target, side if target.is_finite else "+")
    if tag == "int":
        return sympy.integrate(body, symbol if first is None else (symbol, to_sympy(first), to_sympy(second)))
    index = sympy.Symbol(variable, integer=True)
    bounds = (index, to_sympy(first), to_sympy(second))
    series = (sympy.Sum if tag == "sum" else sympy.Product)(body.subs(symbol, index), bounds)
    return series.doit()


def _function(node: Node) -> Any:
    import sympy

    name, arguments = node[1], [to_sympy(argument) for argument in node[2:]]
    if name == "root":
        return sympy.root(arguments[0], arguments[1])
    if name == "log":
        return sympy.log(arguments[0], arguments[1] if len(arguments) > 1 else 10)
    known = {
        "ln": sympy.log, "abs": sympy.Abs, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
        "floor": sympy.floor, "ceil": sympy.ceiling, "factorial": sympy.factorial, "binom": sympy.binomial,
        "arsinh": sympy.asinh, "arcosh": sympy.acosh, "artanh": sympy.atanh, "conj": sympy.conjugate,
        "lg": lambda x: sympy.log(x, 10),
    }  # fmt: skip
    function = known.get(name) or getattr(sympy, name, None)
    if function is None or (name not in known and name not in _SAME_NAME):
        return sympy.Function(name.replace(" ", "_"))(*arguments)
    return function(*arguments)


_SAME_NAME = names("sin cos tan cot sec csc sinh cosh tanh coth exp gcd lcm erf")
