"""One order for terms and factors, so that expressions too large to evaluate can still be compared."""

from __future__ import annotations

from fractions import Fraction

from plaudit_math import exact
from plaudit_math.failures import TooLarge, Undefined
from plaudit_math.nodes import Node, integer

_MINUS_ONE = integer(-1)
_COMMUTING_FUNCTIONS = frozenset(["gcd", "lcm", "max", "min"])


def canonical(node: Node) -> Node:
    """Sums and products flattened and sorted, signs and quotients as factors, small arithmetic carried out."""
    tag = node[0]
    if tag in ("sym", "const", "based"):
        return node
    try:
        value = exact.rational(node)
    except (TooLarge, Undefined):
        value = None
    if value is not None:
        return ("num", value)
    if tag == "neg":
        return _flat("mul", [_MINUS_ONE, canonical(node[1])])
    if tag == "div":
        return _flat("mul", [canonical(node[1]), _reciprocal(canonical(node[2]))])
    if tag in ("add", "mul"):
        return _flat(tag, [canonical(part) for part in node[1:]])
    if tag == "fn" and node[1] == "root":
        return ("pow", canonical(node[2]), canonical(("div", integer(1), node[3])))
    if tag in ("union", "meet"):
        return (tag, *sorted((canonical(part) for part in node[1:]), key=repr))
    if tag == "fn" and node[1] in _COMMUTING_FUNCTIONS:
        return (*node[:2], *sorted((canonical(part) for part in node[2:]), key=repr))
    return tuple(
        canonical(part) if isinstance(part, tuple) and part and isinstance(part[0], str) else part for part in node
    )


def _reciprocal(node: Node) -> Node:
    if node[0] == "num" and node[1]:
        return ("num", 1 / node[1])
    if node[0] == "pow":
        return ("pow", node[1], _flat("mul", [_MINUS_ONE, node[2]]))
    return ("pow", node, _MINUS_ONE)


def _flat(tag: str, parts: list[Node]) -> Node:
    neutral = Fraction(0) if tag == "add" else Fraction(1)
    constant, others = neutral, []
    stack = list(reversed(parts))
    while stack:
        part = stack.pop()
        if part[0] == tag:
            stack.extend(part[1:])
        elif part[0] == "num":
            constant = constant + part[1] if tag == "add" else constant * part[1]
        else:
            others.append(part)
    others.sort(key=repr)
    if constant != neutral or not others:
        others.insert(0, ("num", constant))
    return others[0] if len(others) == 1 else (tag, *others)
