"""Statements of propositional logic, compared by their truth tables."""

from __future__ import annotations

from itertools import product

from plaudit_math.nodes import Node

MAX_ATOMS = 8


def same_statement(left: Node, right: Node) -> bool:
    """Equal truth tables over the atoms of both; more than 8 atoms are compared as written."""
    atoms = sorted(_atoms(left) | _atoms(right), key=repr)
    if len(atoms) > MAX_ATOMS:
        return left == right
    for values in product((False, True), repeat=len(atoms)):
        assignment = dict(zip(atoms, values, strict=True))
        if _truth(left, assignment) != _truth(right, assignment):
            return False
    return True


def _atoms(node: Node) -> set[Node]:
    if node[0] != "logic":
        return {node}
    return set[Node]().union(*(_atoms(part) for part in node[2:]))


def _truth(node: Node, assignment: dict[Node, bool]) -> bool:
    if node[0] != "logic":
        return assignment[node]
    values = [_truth(part, assignment) for part in node[2:]]
    if node[1] == "¬":
        return not values[0]
    left, right = values
    return {"∧": left and right, "∨": left or right, "→": right or not left, "↔": left == right, "⊕": left != right}[
        node[1]
    ]
