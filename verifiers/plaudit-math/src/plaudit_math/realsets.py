"""Sets of real numbers as sorted pieces: intervals, points, unions, solved inequalities."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from plaudit_math import nodes
from plaudit_math.failures import Unreadable
from plaudit_math.nodes import INFINITY, Node
from plaudit_math.scalars import real_value

Same = Callable[[Node, Node], bool]
MINUS_INFINITY = nodes.negate(INFINITY)
_TURNED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "=": "=", "≠": "≠"}


class Piece(NamedTuple):
    """From `low` to `high`; a point has both the same and both closed."""

    low: Node
    open_low: bool
    high: Node
    open_high: bool


class RealSet(NamedTuple):
    """`variable`: the name in x > 2, or "" where none is written."""

    variable: str
    pieces: tuple[Piece, ...]


WHOLE = RealSet("", (Piece(MINUS_INFINITY, True, INFINITY, True),))


def real_set(node: Node) -> RealSet | None:
    """The set that a node describes, or None. A pair in parentheses is read as an open interval."""
    tag = node[0]
    if tag == "const":
        return {"ℝ": WHOLE, "∅": RealSet("", ())}.get(node[1])
    if tag == "interval":
        return _one("", node[2], node[1], node[3], node[4])
    if tag in ("bracket", "tuple") and len(node[1]) == 2:
        closed = tag == "bracket"
        return _one("", node[1][0], not closed, node[1][1], not closed)
    if tag == "set":
        return RealSet("", tuple(Piece(item, False, item, False) for item in node[1]))
    if tag in ("union", "meet", "minus") or (tag == "add" and len(node) == 3 and node[2][0] == "neg"):
        return _combined(node)
    if tag == "rel":
        return _from_relation(node[1], node[2])
    if tag == "bound":
        return _half("", node[1], node[2])
    if tag == "list" and node[2] and all(item[0] == "rel" for item in node[2]):
        return _from_relations(node[1], [_from_relation(item[1], item[2]) for item in node[2]])
    if tag == "list" and any(item[0] == "interval" for item in node[2]):
        return _from_relations("or", [real_set(item) for item in node[2]])
    if tag == "logic" and node[1] in ("∧", "∨"):
        return _from_relations("and" if node[1] == "∧" else "or", [real_set(part) for part in node[2:]])
    return None


def _one(variable: str, low: Node, open_low: bool, high: Node, open_high: bool) -> RealSet:
    """An infinite end is open, however it is written."""
    first, last = real_value(low), real_value(high)
    infinite_low, infinite_high = first == float("-inf"), last == float("inf")
    if first is not None and last is not None and first >= last and not (first == last and not (open_low or open_high)):
        return RealSet(variable, ())
    return RealSet(variable, (Piece(low, open_low or infinite_low, high, open_high or infinite_high),))


def _half(variable: str, operator: str, value: Node) -> RealSet | None:
    if operator in (">", "≥"):
        return _one(variable, value, operator == ">", INFINITY, True)
    if operator in ("<", "≤"):
        return _one(variable, MINUS_INFINITY, True, value, operator == "<")
    if operator == "=":
        return RealSet(variable, (Piece(value, False, value, False),))
    if operator == "≠":
        return complement(RealSet(variable, (Piece(value, False, value, False),)))
    return None


def _from_relation(operators: tuple[str, ...], sides: tuple[Node, ...]) -> RealSet | None:
    if len(operators) == 1 and operators[0] in ("∈", "∉") and sides[0][0] == "sym":
        inner = real_set(sides[1])
        if inner is None:
            return None
        named = inner._replace(variable=sides[0][1])
        return named if operators[0] == "∈" else complement(named)
    places = [place for place, side in enumerate(sides) if _variable(side)]
    if len(sides) == 3 and _variable(sides[1]):
        places = [1]
    if len(places) != 1 or any(operator not in _TURNED for operator in operators):
        return None
    place = places[0]
    variable = _variable(sides[place])
    if any(variable in nodes.symbols(side) for index, side in enumerate(sides) if index != place):
        return None
    if sides[place][0] == "fn":
        return _absolute(operators, sides, place, variable)
    found = WHOLE._replace(variable=variable)
    for index, operator in enumerate(operators):
        if index + 1 == place:
            half = _half(variable, _TURNED[operator], sides[index])
        elif index == place:
            half = _half(variable, operator, sides[index + 1])
        else:
            return None
        meeting = half and intersection(found, half)
        if meeting is None:
            return None
        found = meeting
    return found


def _variable(side: Node) -> str:
    if side[0] == "sym":
        return str(side[1])
    if side[0] == "fn" and side[1] == "abs" and side[2][0] == "sym":
        return str(side[2][1])
    return ""


def _absolute(operators: tuple[str, ...], sides: tuple[Node, ...], place: int, variable: str) -> RealSet | None:
    """|x| < 3."""
    if len(operators) != 1:
        return None
    operator, value = (operators[0], sides[1]) if place == 0 else (_TURNED[operators[0]], sides[0])
    if (real_value(value) or 0) <= 0:
        return None
    if operator in ("<", "≤"):
        return _one(variable, nodes.negate(value), operator == "<", value, operator == "<")
    if operator in (">", "≥"):
        return complement(_one(variable, nodes.negate(value), operator == "≥", value, operator == "≥"))
    return None


def _from_relations(joined: str, found: list[RealSet | None]) -> RealSet | None:
    """x > 2 or x < 1; x > 1 and x < 2. A comma means "and" where that leaves something, else "or"."""
    sets = [item for item in found if item is not None]
    if len(sets) != len(found) or len({item.variable for item in sets}) != 1:
        return None
    if joined != "or":
        meeting: RealSet | None = sets[0]
        for item in sets[1:]:
            meeting = meeting and intersection(meeting, item)
        if meeting is not None and (meeting.pieces or joined == "and"):
            return meeting
    return union(*sets)


def _combined(node: Node) -> RealSet | None:
    right_node = node[2][1] if node[0] == "add" else node[2]
    left, right = real_set(node[1]), real_set(right_node)
    if left is None or right is None or (node[0] == "add" and node[1][0] != "const"):
        return None
    if node[0] == "union":
        return union(left, right)
    if node[0] == "meet":
        return intersection(left, right)
    return intersection(left, complement(right))


def _number(node: Node) -> float:
    value = real_value(node)
    if value is None:
        raise Unreadable("the ends of intervals cannot be put in order")
    return value


def _key(piece: Piece) -> tuple[float, bool]:
    return _number(piece.low), piece.open_low


def union(*sets: RealSet) -> RealSet:
    """Pieces in order, merged where they touch. Raises Unreadable if their ends are not numbers."""
    pieces = sorted((piece for item in sets for piece in item.pieces), key=_key)
    merged: list[Piece] = []
    for piece in pieces:
        if merged and _touch(merged[-1], piece):
            merged[-1] = _joined(merged[-1], piece)
        else:
            merged.append(piece)
    return RealSet(sets[0].variable, tuple(merged))


def _touch(left: Piece, right: Piece) -> bool:
    end, start = _number(left.high), _number(right.low)
    return start < end or (start == end and not (left.open_high and right.open_low))


def _joined(left: Piece, right: Piece) -> Piece:
    end, other = _number(left.high), _number(right.high)
    if other > end or (other == end and left.open_high):
        return Piece(left.low, left.open_low, right.high, right.open_high)
    return left


def complement(item: RealSet) -> RealSet:
    """Everything real that is not in it."""
    pieces: list[Piece] = []
    low, open_low = MINUS_INFINITY, True
    for piece in union(item).pieces:
        if _number(piece.low) > _number(low) or (piece.open_low and not open_low):
            pieces.append(Piece(low, open_low, piece.low, not piece.open_low))
        low, open_low = piece.high, not piece.open_high
    if low != INFINITY:
        pieces.append(Piece(low, open_low, INFINITY, True))
    return RealSet(item.variable, tuple(pieces))


def intersection(left: RealSet, right: RealSet) -> RealSet | None:
    """None if the ends cannot be compared."""
    if left.pieces == WHOLE.pieces:
        return right._replace(variable=left.variable or right.variable)
    if right.pieces == WHOLE.pieces:
        return left
    try:
        outside = union(complement(left), complement(right))
        return complement(outside)._replace(variable=left.variable)
    except Unreadable:
        return _symbolic_meeting(left, right)


def _symbolic_meeting(left: RealSet, right: RealSet) -> RealSet | None:
    """a < x and x < b with letters: a half line to the right meets one to the left."""
    if len(left.pieces) != 1 or len(right.pieces) != 1:
        return None
    first, second = left.pieces[0], right.pieces[0]
    if first.high != INFINITY:
        first, second = second, first
    if first.high != INFINITY or second.low != MINUS_INFINITY:
        return None
    return RealSet(left.variable, (Piece(first.low, first.open_low, second.high, second.open_high),))


def same_set(left: RealSet, right: RealSet, same: Same) -> bool:
    """Equal pieces; `same` compares the ends. Names of variables are not compared here."""
    with contextlib.suppress(Unreadable):
        left, right = union(left), union(right)
    if len(left.pieces) != len(right.pieces):
        return False
    return all(
        a.open_low == b.open_low and a.open_high == b.open_high and same(a.low, b.low) and same(a.high, b.high)
        for a, b in zip(left.pieces, right.pieces, strict=True)
    )
