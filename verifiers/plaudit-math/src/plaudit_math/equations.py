"""Equations and inequalities between expressions, and the value that an equation assigns."""

from __future__ import annotations

from plaudit_math import nodes
from plaudit_math.failures import NeedsWorker
from plaudit_math.nodes import Node
from plaudit_math.scalars import proportional, same_value

_TURNED = {"<": ">", "≤": "≥", ">": "<", "≥": "≤", "=": "=", "≠": "≠"}


_MUTUAL = frozenset(["∥", "⟂", "≅", "∼"])


def is_name(node: Node) -> bool:
    """May it stand alone on one side to be given a value: x, f(x), P(A), |z|, sin θ, (x, y)?"""
    if node[0] == "sym" or (node[0] == "tuple" and all(item[0] == "sym" for item in node[1])):
        return True
    if node[0] == "fn" and node[1].startswith("call "):
        return True
    if node[0] == "ratio":
        return all(is_name(part) for part in node[1])
    if node[0] == "div":
        return all(part[0] == "mul" and is_name(part) for part in node[1:])
    if node[0] == "mul":
        return all(part[0] == "sym" and len(part[1]) == 1 and part[1].isupper() for part in node[1:])
    return node[0] == "fn" and bool(nodes.symbols(node)) and node[1] not in ("root", "factorial", "binom")


def exact_part(relation: Node) -> Node:
    """x = 1/3 ≈ 0.33 without its approximations."""
    place = relation[1].index("≈") if "≈" in relation[1] else 0
    return ("rel", relation[1][:place], relation[2][: place + 1]) if place else relation


def assigned(relation: Node) -> tuple[Node, Node] | None:
    """(name, value) of x = 3, 3 = x, S = ½ab = 12; None for other equations and for contradicting chains."""
    _, operators, sides = exact_part(relation)
    if any(operator not in ("=", "≈") for operator in operators):
        return None
    worked_out = len(sides) > 2 and all(side[0] in nodes.SCALARS and not nodes.symbols(side) for side in sides[-2:])
    if worked_out and not is_name(sides[0]):
        return (sides[0], sides[-1]) if same_value(*sides[-2:]) else None
    if is_name(sides[0]) and (sides[0][0] != "sym" or sides[0][1] not in nodes.symbols(sides[-1])):
        name, values = sides[0], sides[1:]
    elif len(sides) == 2 and is_name(sides[1]) and not nodes.symbols(sides[0]):
        name, values = sides[1], sides[:1]
    else:
        return None
    closed = [value for value in values if value[0] in nodes.SCALARS and not nodes.symbols(value)]
    if any(not same_value(closed[0], other) for other in closed[1:]):
        return None
    return name, values[-1]


def closed_value(relation: Node) -> Node | None:
    """The value of 3·20 = 60, whose sides are all numbers and agree."""
    operators, sides = relation[1], relation[2]
    if any(operator not in ("=", "≈") for operator in operators):
        return None
    if any(side[0] not in nodes.SCALARS or nodes.symbols(side) for side in sides):
        return None
    if operators[0] == "≈":
        return sides[0]
    sides = exact_part(relation)[2]
    return sides[-1] if all(same_value(sides[0], side) for side in sides[1:]) else None


def same_relation(left: Node, right: Node) -> bool:
    """Do two relations say the same: equal up to turning round, moving terms, and a common factor?"""
    if len(left[1]) != len(right[1]):
        return False
    if len(left[1]) > 1:
        return _same_chain(left, right) or _same_chain(left, _turned(right))
    operator, other = left[1][0], right[1][0]
    if operator == other and operator in _MUTUAL and _same_chain(left, ("rel", right[1], right[2][::-1])):
        return True
    if operator not in _TURNED or other not in _TURNED:
        return operator == other and all(a == b or _scalar_same(a, b) for a, b in zip(left[2], right[2], strict=True))
    if operator not in (other, _TURNED[other]):
        return False
    if not all(side[0] in nodes.SCALARS for side in (*left[2], *right[2])):
        return _same_chain(left, right) or _same_chain(left, _turned(right))
    return _same_difference(left, right)


def _same_difference(left: Node, right: Node) -> bool:
    first, second = nodes.subtract(*left[2]), nodes.subtract(*right[2])
    if not nodes.symbols(first) or not nodes.symbols(second):
        return False
    if left[1][0] not in ("=", "≠"):
        factor = proportional(first, second)
        return factor is not None and (factor > 0) == (left[1][0] == right[1][0])
    if nodes.contains(first, "int", "lim") or nodes.contains(second, "int", "lim"):
        raise NeedsWorker("an equation with an integral")
    return proportional(numerator(first), numerator(second)) is not None


def numerator(node: Node) -> Node:
    """The node times its denominators: x/9 + y/5 - 1 becomes 5x + 9y - 45 (not expanded)."""
    top, _ = _together(node)
    return top


def _together(node: Node) -> tuple[Node, Node]:
    tag = node[0]
    if tag == "neg":
        top, below = _together(node[1])
        return nodes.negate(top), below
    if tag == "div":
        (top, inner), (below, lower) = _together(node[1]), _together(node[2])
        return ("mul", top, lower), ("mul", inner, below)
    if tag == "pow" and node[2][0] == "num" and node[2][1] < 0 and node[2][1].denominator == 1:
        return nodes.ONE, ("pow", node[1], nodes.negate(node[2]))
    if tag == "mul":
        parts = [_together(part) for part in node[1:]]
        return nodes.multiply(*(top for top, _ in parts)), nodes.multiply(*(below for _, below in parts))
    if tag == "add":
        return _sum_together([_together(part) for part in node[1:]])
    return node, nodes.ONE


def _sum_together(parts: list[tuple[Node, Node]]) -> tuple[Node, Node]:
    """Equal denominators are taken once."""
    belows = list(dict.fromkeys(below for _, below in parts if nodes.symbols(below)))
    terms = []
    for top, below in parts:
        others = [other for other in belows if other != below]
        term = top if below in belows or below == nodes.ONE else ("div", top, below)
        terms.append(nodes.multiply(term, *others))
    return nodes.add(*terms), nodes.multiply(*(belows or [nodes.ONE]))


def _turned(relation: Node) -> Node:
    operators = tuple(_TURNED.get(operator, operator) for operator in reversed(relation[1]))
    return ("rel", operators, tuple(reversed(relation[2])))


def _same_chain(left: Node, right: Node) -> bool:
    return left[1] == right[1] and all(_scalar_same(a, b) for a, b in zip(left[2], right[2], strict=True))


def _scalar_same(left: Node, right: Node) -> bool:
    if left[0] in nodes.SCALARS and right[0] in nodes.SCALARS:
        return same_value(left, right)
    return left == right
