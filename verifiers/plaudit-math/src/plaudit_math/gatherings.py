"""Lists, tuples, sets, vectors and matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from plaudit_math import budget
from plaudit_math.failures import TooLarge
from plaudit_math.nodes import SCALARS, Node
from plaudit_math.policy import Policy

Same = Callable[[Node, Node, Policy], bool]
MAX_ITEMS = 300


def same_collection(gold: Node, answer: Node, policy: Policy, same: Same) -> bool:
    """Order counts in tuples, vectors and matrices; not in lists and sets; repetition does not count in sets."""
    kinds = {gold[0], answer[0]}
    if kinds & set(SCALARS):
        return _alone(gold, answer, policy, same)
    if kinds == {"set", "tuple"} and (alone := gold if gold[0] == "set" else answer)[1][:1] == alone[1]:
        return alone[1] != () and alone[1][0][0] == "tuple" and _alone(gold, answer, policy, same)
    if "matrix" in kinds:
        return _matrices(gold, answer, policy, same)
    left, right = gold[-1], answer[-1]
    if not kinds <= {"list", "tuple", "set", "bracket"}:
        return False
    if max(len(left), len(right)) > MAX_ITEMS:
        raise TooLarge(f"a collection of more than {MAX_ITEMS} items")
    if kinds == {"set"} or kinds == {"set", "list"}:
        return _unordered(_distinct(left, policy, same), _distinct(right, policy, same), policy, same)
    if kinds == {"list"}:
        return (_ordered if policy.ordered_lists else _unordered)(left, right, policy, same)
    if "set" in kinds or (policy.strict_forms and len(kinds) > 1):
        return False
    if "bracket" in kinds and len(kinds) > 1 and len(left) == 2:
        return False
    return _ordered(left, right, policy, same)


def _alone(gold: Node, answer: Node, policy: Policy, same: Same) -> bool:
    """{5} and [5] for 5: one element stands for itself."""
    kinds = ("set",) if "tuple" in (gold[0], answer[0]) else ("set", "bracket", "list")
    left, right = ((node[-1] if node[0] in kinds else (node,)) for node in (gold, answer))
    if "matrix" in (gold[0], answer[0]) or len(left) != 1 or len(right) != 1:
        return False
    return same(left[0], right[0], policy)


def _ordered(left: Sequence[Node], right: Sequence[Node], policy: Policy, same: Same) -> bool:
    return len(left) == len(right) and all(same(a, b, policy) for a, b in zip(left, right, strict=True))


def _unordered(left: Sequence[Node], right: Sequence[Node], policy: Policy, same: Same) -> bool:
    if len(left) != len(right):
        return False
    rest = list(right)
    for item in left:
        budget.check()
        place = next((place for place, other in enumerate(rest) if same(item, other, policy)), None)
        if place is None:
            return False
        del rest[place]
    return True


def _distinct(items: Sequence[Node], policy: Policy, same: Same) -> list[Node]:
    kept: list[Node] = []
    for item in items:
        if not any(item == other or same(item, other, policy) for other in kept):
            kept.append(item)
    return kept


def _matrices(gold: Node, answer: Node, policy: Policy, same: Same) -> bool:
    left, right = _rows(gold), _rows(answer)
    if left is None or right is None:
        return False
    one_line = gold[0] != "matrix" or answer[0] != "matrix"
    if one_line and not policy.strict_forms:
        flat = [[cell for row in rows for cell in row] for rows in (left, right)]
        if all(1 in (len(rows), len(rows[0])) for rows in (left, right)):
            return _ordered(flat[0], flat[1], policy, same)
    return len(left) == len(right) and all(_ordered(a, b, policy, same) for a, b in zip(left, right, strict=True))


def _rows(node: Node) -> Sequence[Sequence[Node]] | None:
    if node[0] == "matrix":
        return list(node[1])
    if node[0] in ("tuple", "bracket"):
        if node[1] and all(item[0] in ("tuple", "bracket") for item in node[1]):
            return [item[1] for item in node[1]]
        return [node[1]]
    return None
