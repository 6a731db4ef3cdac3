"""Scalars with what they carry: units, percent signs, bases, decimals that stand for exact numbers."""

from __future__ import annotations

from plaudit_math import exact, nodes
from plaudit_math.failures import TooLarge, Undefined
from plaudit_math.nodes import Node
from plaudit_math.policy import Policy
from plaudit_math.scalars import same_value
from plaudit_math.tolerance import close
from plaudit_math.units import NONE, Unit, combine

_ANGLE = (("angle", 1),)


def same_quantity(gold: Node, answer: Node, policy: Policy) -> bool:
    """Equal values in units that fit."""
    (left, first), (right, second) = _unit(gold), _unit(answer)
    if first is None and second is None:
        return _numbers(gold, answer, policy)
    if policy.units == "ignore":
        return _numbers(left, right, policy)
    if first is None or second is None:
        return _one_unit(left, right, first or second or NONE, policy)
    if not first.dimensions or not second.dimensions:
        scaled = _scaled(left, first), _scaled(right, second)
        return _numbers(*scaled, policy) or _one_unit(left, right, first if first.dimensions else second, policy)
    if first.dimensions != second.dimensions or (first.factor != second.factor and not policy.convert_units):
        return False
    if first.factor == second.factor:
        return _numbers(left, right, policy)
    return same_value(_scaled(left, first), _scaled(right, second))


def _unit(node: Node) -> tuple[Node, Unit | None]:
    if node[0] == "neg" and node[1][0] == "qty":
        return nodes.negate(node[1][1]), node[1][2]
    if node[0] == "qty":
        inner, unit = _unit(node[1])
        return inner, node[2] if unit is None else combine(node[2], unit, 1)
    return node, None


def _scaled(node: Node, unit: Unit) -> Node:
    return node if unit.factor == 1 else ("mul", node, ("num", unit.factor))


def _one_unit(left: Node, right: Node, unit: Unit, policy: Policy) -> bool:
    """A unit on one side only: the bare numbers must agree; degrees may meet radians; 2 dozen is 24."""
    if unit.dimensions and (policy.units == "required" or "pct" in (left[0], right[0])):
        return False
    if _numbers(left, right, policy):
        return True
    if not unit.dimensions and unit.factor != 1:
        return same_value(_scaled(left, unit), right) or same_value(left, _scaled(right, unit))
    if unit.dimensions == _ANGLE and policy.convert_units:
        half_turn = ("div", nodes.PI, nodes.integer(180))
        return any(nodes.contains(node, "const") for node in (left, right)) and (
            same_value(("mul", left, half_turn), right) or same_value(left, ("mul", right, half_turn))
        )
    return False


def _numbers(gold: Node, answer: Node, policy: Policy) -> bool:
    if gold[0] == "based" or answer[0] == "based":
        return _based(gold, answer)
    if policy.log_base == "e":
        gold, answer = _natural(gold), _natural(answer)
    if same_value(gold, answer):
        return True
    if (gold[0] == "pct") != (answer[0] == "pct") and policy.bare_percent:
        left, right = (node[1] if node[0] == "pct" else node for node in (gold, answer))
        if same_value(left, right):
            return True
    if _letter_c(gold, answer) and same_value(nodes.substitute(gold, "c", _C), nodes.substitute(answer, "c", _C)):
        return True
    if _constant(gold) == _constant(answer) is not None and same_value(*_one_constant(gold, answer)):
        return True
    if policy.rel_tol and _within(gold, answer, policy.rel_tol):
        return True
    return close(gold, answer, min_digits=policy.decimal_digits, gold_precision=policy.gold_precision)


def _based(gold: Node, answer: Node) -> bool:
    """2021_5 is met by itself, by its digits alone and by its value; not by the same digits in another base."""
    if gold[0] == answer[0] == "based":
        return same_value(gold, answer)
    numeral, other = (gold, answer) if gold[0] == "based" else (answer, gold)
    try:
        written = exact.rational(other)
        value = exact.rational(numeral)
    except (TooLarge, Undefined):
        return False
    return written is not None and (written == value or str(written) == numeral[1])


def _natural(node: Node) -> Node:
    if node[0] == "fn" and node[1] == "log" and len(node) == 3:
        return ("fn", "ln", _natural(node[2]))
    return tuple(
        _natural(part) if isinstance(part, tuple) and part and isinstance(part[0], str) else part for part in node
    )


_C: Node = ("sym", "C")


def _letter_c(gold: Node, answer: Node) -> bool:
    """Is an arbitrary constant called C on one side and c on the other, beside a variable?"""
    names = nodes.symbols(gold), nodes.symbols(answer)
    both = [name & {"C", "c"} for name in names]
    return len(names[0]) > 1 and all(len(found) == 1 for found in both) and both[0] != both[1]


def _constant(node: Node) -> str | None:
    """A letter C, c or K that is only added on: a constant of integration."""
    if node[0] != "add" or len(nodes.symbols(node)) < 2:
        return None
    return next(("C" for term in node[1:] if term in _CONSTANTS), None)


_CONSTANTS = tuple(("sym", name) for name in ("C", "c", "K", "C_1", "c_1", "C_0"))


def _one_constant(gold: Node, answer: Node) -> tuple[Node, Node]:
    renamed = []
    for node in (gold, answer):
        constant = next(term for term in node[1:] if term in _CONSTANTS)
        renamed.append(nodes.substitute(node, constant[1], ("sym", "C")))
    return renamed[0], renamed[1]


def _within(gold: Node, answer: Node, tolerance: float) -> bool:
    from plaudit_math.scalars import real_value

    left, right = real_value(gold), real_value(answer)
    if left is None or right is None:
        return False
    return abs(left - right) <= tolerance * max(abs(left), abs(right))
