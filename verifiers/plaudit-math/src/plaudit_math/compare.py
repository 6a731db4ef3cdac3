"""Do two readings answer the same? The rules by shape; symmetric but for the precision of a decimal gold."""

from __future__ import annotations

from plaudit_math import equations, nodes, realsets
from plaudit_math.canonical import canonical
from plaudit_math.gatherings import same_collection
from plaudit_math.logic import same_statement
from plaudit_math.nodes import Node
from plaudit_math.policy import Policy
from plaudit_math.quantities import same_quantity
from plaudit_math.shapes import assignments, shape
from plaudit_math.written import WRITTEN, same_written

_COLLECTIONS = frozenset(["list", "tuple", "set", "bracket", "matrix"])
_SETS = frozenset(["interval", "union", "meet", "minus", "bound"])


def same(gold: Node, answer: Node, policy: Policy) -> bool:
    """True if `answer` answers `gold`. Raises NeedsWorker when only symbolic mathematics can tell."""
    if gold == answer:
        return True
    if gold[0] in WRITTEN or answer[0] in WRITTEN:
        return same_written(gold, answer, policy, same)
    gold, answer = shape(gold), shape(answer)
    if gold == answer:
        return True
    for rule in (_relations, _named, _sets, _collections, _special):
        verdict = rule(gold, answer, policy)
        if verdict is not None:
            return verdict
    if gold[0] in nodes.SCALARS and answer[0] in nodes.SCALARS:
        return same_quantity(gold, answer, policy)
    return False


def _relations(gold: Node, answer: Node, policy: Policy) -> bool | None:
    """Two equations or two inequalities."""
    if gold[0] != "rel" or answer[0] != "rel":
        return None
    first, second = equations.assigned(gold), equations.assigned(answer)
    if first and second:
        if first[0] == second[0] or (policy.any_variable and first[0][0] == second[0][0] == "sym"):
            return same(first[1], second[1], policy) or equations.same_relation(gold, answer)
        if _is_call(first[0]) or _is_call(second[0]):
            return _same_function(first, second, policy)
    left, right = realsets.real_set(gold), realsets.real_set(answer)
    if left and right and "=" not in gold[1] + answer[1]:
        return _same_real_set(left, right, policy)
    return equations.same_relation(gold, answer)


def _is_call(node: Node) -> bool:
    return node[0] == "fn" and node[1].startswith("call ")


def _same_function(first: tuple[Node, Node], second: tuple[Node, Node], policy: Policy) -> bool:
    """f(x) = x² and g(x) = x², y = x²: one function is asked for, its name is free; its argument is not."""
    if len({str(name[1]).count("'") for name, _ in (first, second)}) > 1:
        return False
    arguments = [name[2:] for name, _ in (first, second) if _is_call(name)]
    if len(arguments) == 2 and (
        arguments[0] != arguments[1] or not nodes.symbols(first[0]) or not nodes.symbols(second[0])
    ):
        return False
    if len(arguments) == 1 and any(name[0] == "sym" and name in arguments[0] for name, _ in (first, second)):
        return False
    if len(arguments) == 2 and first[0][1][5:] == "P":
        return first[0] == second[0] and same(first[1], second[1], policy)
    return same(first[1], second[1], policy)


def _named(gold: Node, answer: Node, policy: Policy) -> bool | None:
    """x = 11 against 11; x = 2, y = 3 against (2, 3) or against the same in another order."""
    for member, other in ((gold, answer), (answer, gold)):
        if member[0] == "rel" and member[1] == ("∈",) and other[0] == "const":
            return same(member[2][1], other, policy)
    left, right = assignments(gold), assignments(answer)
    if left and right:
        return _same_assignments(left, right, policy)
    if not left and not right:
        return _closed(gold, answer, policy)
    pairs, other = (left, answer) if left else (right, gold)
    if pairs is None or other[0] == "rel" or (other[0] == "list" and any(item[0] == "rel" for item in other[2])):
        if pairs is not None and gold[0] == answer[0] == "list":
            return same_collection(gold, answer, policy, same)
        return _set_of(gold, answer, policy)
    names = [name for name, _ in pairs]
    if len(pairs) == 1:
        value: Node = pairs[0][1]
    elif len(set(names)) == 1:
        value = ("list", "or", tuple(item for _, item in pairs))
    elif len(set(names)) == len(names) and other[0] in ("tuple", "list"):
        if _indexed(names):
            return same(("list", ",", tuple(item for _, item in pairs)), ("list", ",", other[-1]), policy)
        written: Node = ("tuple", tuple(item for _, item in pairs))
        other = ("tuple", other[-1])
        if left and same(written, other, policy):
            return True
        if all(name[0] == "sym" and len(name[1]) == 1 for name in names):
            pairs = sorted(pairs, key=lambda pair: pair[0][1])
        value = ("tuple", tuple(item for _, item in pairs))
    else:
        return False
    if len(pairs) == 1 and value[0] == "tuple" and names[0][0] == "tuple":
        return None
    return same(value, other, policy) if left else same(other, value, policy)


def _indexed(names: list[Node]) -> bool:
    """x_1, x_2: solutions for one unknown, in any order."""
    bases = {str(name[1]).partition("_")[0] for name in names if name[0] == "sym" and "_" in name[1]}
    return len(bases) == 1 and all(name[0] == "sym" and "_" in name[1] for name in names)


def _set_of(gold: Node, answer: Node, policy: Policy) -> bool | None:
    left, right = realsets.real_set(gold), realsets.real_set(answer)
    return _same_real_set(left, right, policy) if left and right else False


def _closed(gold: Node, answer: Node, policy: Policy) -> bool | None:
    """3·20 = 60 is 60."""
    for first, second in ((gold, answer), (answer, gold)):
        if first[0] == "rel" and second[0] in nodes.SCALARS and set(first[1]) <= {"=", "≈"}:
            value = equations.closed_value(first)
            return value is not None and same_quantity(value, second, policy)
    return None


def _same_assignments(left: list[tuple[Node, Node]], right: list[tuple[Node, Node]], policy: Policy) -> bool:
    if len(left) != len(right):
        return False
    if policy.any_variable and len(left) == 1:
        return same(left[0][1], right[0][1], policy)
    rest = list(right)
    for name, value in left:
        found = next((pair for pair in rest if pair[0] == name and same(value, pair[1], policy)), None)
        if found is None:
            return False
        rest.remove(found)
    return True


def _sets(gold: Node, answer: Node, policy: Policy) -> bool | None:
    """Intervals, unions and solved inequalities. Two pairs in parentheses stay pairs."""
    if not (
        {gold[0], answer[0]} & _SETS or _is_inequality(gold) or _is_inequality(answer) or _is_set_name(gold, answer)
    ):
        return None
    left, right = realsets.real_set(gold), realsets.real_set(answer)
    if left is right is None and {gold[0], answer[0]} <= {"union", "meet", "minus"}:
        return canonical(gold) == canonical(answer)
    if left is None or right is None:
        return None if left is right is None else False
    return _same_real_set(left, right, policy)


def _is_inequality(node: Node) -> bool:
    items = node[2] if node[0] == "list" else (node,)
    return (bool(items) and all(item[0] == "rel" and "=" not in item[1] for item in items)) or node[0] == "logic"


def _is_set_name(gold: Node, answer: Node) -> bool:
    return any(node in (("const", "ℝ"), ("const", "∅")) for node in (gold, answer)) or (
        "bracket" in (gold[0], answer[0]) and (gold[0] in ("rel", "interval") or answer[0] in ("rel", "interval"))
    )


def _same_real_set(left: realsets.RealSet, right: realsets.RealSet, policy: Policy) -> bool:
    if left.variable and right.variable and left.variable != right.variable and not policy.any_variable:
        return False
    return realsets.same_set(left, right, lambda a, b: same(a, b, policy))


def _collections(gold: Node, answer: Node, policy: Policy) -> bool | None:
    if gold[0] not in _COLLECTIONS and answer[0] not in _COLLECTIONS:
        return None
    return same_collection(gold, answer, policy, same)


def _special(gold: Node, answer: Node, policy: Policy) -> bool | None:
    """Congruences, ratios, statements, cases."""
    tags = (gold[0], answer[0])
    if tags == ("cong", "cong"):
        return _congruent(gold, answer, policy)
    if "cong" in tags:
        alone, other = (gold, answer) if gold[0] == "cong" else (answer, gold)
        return alone[1] is None and other[0] in nodes.SCALARS and same(("fn", "mod", *alone[2:]), other, policy)
    if "ratio" in tags:
        return _ratio(gold, answer, policy)
    if "logic" in tags:
        return tags == ("logic", "logic") and same_statement(gold, answer)
    if tags == ("cases", "cases"):
        rows = [("tuple", row) for row in gold[1]], [("tuple", row) for row in answer[1]]
        return same_collection(("list", ",", tuple(rows[0])), ("list", ",", tuple(rows[1])), policy, same)
    return None


def _congruent(gold: Node, answer: Node, policy: Policy) -> bool:
    if None not in (gold[1], answer[1]) and gold[1] != answer[1] and not policy.any_variable:
        return False
    if not same(gold[3], answer[3], policy):
        return False
    remainders = [("fn", "mod", node[2], node[3]) for node in (gold, answer)]
    return same(remainders[0], remainders[1], policy)


def _ratio(gold: Node, answer: Node, policy: Policy) -> bool:
    """1 : 2 : 3 = 2 : 4 : 6; a : b stands for a/b too."""
    if gold[0] == answer[0] == "ratio":
        left, right = gold[1], answer[1]
        if len(left) != len(right) or policy.is_time:
            return False
        if any(part == nodes.ZERO for part in (*left, *right)):
            return all(same(a, b, policy) for a, b in zip(left, right, strict=True))
        crossed = zip(left[1:], right[1:], strict=True)
        return all(same(("mul", left[0], b), ("mul", right[0], a), policy) for a, b in crossed)
    ratio, other = (gold, answer) if gold[0] == "ratio" else (answer, gold)
    if len(ratio[1]) != 2 or other[0] not in nodes.SCALARS or policy.is_time:
        return False
    return same(("div", *ratio[1]), other, policy)
