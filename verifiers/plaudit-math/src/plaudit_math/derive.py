"""Derivatives by the rules of the school book, on nodes."""

from __future__ import annotations

from plaudit_math import nodes
from plaudit_math.failures import NeedsWorker
from plaudit_math.nodes import ONE, ZERO, Node

_TWO = nodes.integer(2)


def derivative(node: Node, name: str) -> Node:
    """d node / d name. Raises NeedsWorker on a function without a rule."""
    if name not in nodes.symbols(node):
        return ZERO
    tag = node[0]
    if tag == "sym":
        return ONE
    if tag == "add":
        return nodes.add(*(derivative(part, name) for part in node[1:]))
    if tag == "neg":
        return nodes.negate(derivative(node[1], name))
    if tag == "mul":
        return _product(node[1:], name)
    if tag == "div":
        top, below = node[1:]
        change = nodes.subtract(("mul", derivative(top, name), below), ("mul", top, derivative(below, name)))
        return ("div", change, ("pow", below, _TWO))
    if tag == "pow":
        return _power(node[1], node[2], name)
    if tag == "fn":
        return _function(node, name)
    if tag == "int" and node[1] == name and node[2] is None:
        return node[4]
    raise NeedsWorker(f"the derivative of a {tag}")


def _product(factors: tuple[Node, ...], name: str) -> Node:
    terms = []
    for place, factor in enumerate(factors):
        others = factors[:place] + factors[place + 1 :]
        terms.append(nodes.multiply(derivative(factor, name), *others))
    return nodes.add(*terms)


def _power(base: Node, exponent: Node, name: str) -> Node:
    if name not in nodes.symbols(exponent):
        lowered = ("pow", base, nodes.subtract(exponent, ONE))
        return ("mul", exponent, lowered, derivative(base, name))
    logarithm = ("fn", "ln", base)
    inner = (
        "add",
        ("mul", derivative(exponent, name), logarithm),
        ("div", ("mul", exponent, derivative(base, name)), base),
    )
    return ("mul", ("pow", base, exponent), inner)


def _function(node: Node, name: str) -> Node:
    kind, inside = node[1], node[2]
    if kind == "root":
        return _power(inside, ("div", ONE, node[3]), name)
    if kind == "log":
        base = node[3] if len(node) > 3 else nodes.integer(10)
        return ("div", derivative(inside, name), ("mul", inside, ("fn", "ln", base)))
    rule = _RULES.get(kind)
    if rule is None:
        raise NeedsWorker(f"the derivative of {kind}")
    return ("mul", rule(inside), derivative(inside, name))


def _square(kind: str, x: Node) -> Node:
    return ("pow", ("fn", kind, x), _TWO)


def _root(x: Node) -> Node:
    return ("fn", "root", x, _TWO)


_RULES = {
    "sin": lambda x: ("fn", "cos", x),
    "cos": lambda x: ("neg", ("fn", "sin", x)),
    "tan": lambda x: _square("sec", x),
    "cot": lambda x: ("neg", _square("csc", x)),
    "sec": lambda x: ("mul", ("fn", "sec", x), ("fn", "tan", x)),
    "csc": lambda x: ("neg", ("mul", ("fn", "csc", x), ("fn", "cot", x))),
    "exp": lambda x: ("fn", "exp", x),
    "ln": lambda x: ("div", ONE, x),
    "sinh": lambda x: ("fn", "cosh", x),
    "cosh": lambda x: ("fn", "sinh", x),
    "arctan": lambda x: ("div", ONE, ("add", ONE, ("pow", x, _TWO))),
    "arcsin": lambda x: ("div", ONE, _root(("add", ONE, ("neg", ("pow", x, _TWO))))),
    "arccos": lambda x: ("neg", ("div", ONE, _root(("add", ONE, ("neg", ("pow", x, _TWO)))))),
    "abs": lambda x: ("div", x, ("fn", "abs", x)),
}
