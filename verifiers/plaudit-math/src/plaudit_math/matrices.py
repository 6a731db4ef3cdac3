"""Arithmetic of matrices of nodes: what answers need to reach one matrix."""

from __future__ import annotations

from plaudit_math import nodes
from plaudit_math.failures import TooLarge, Unreadable
from plaudit_math.nodes import Node

MAX_SIZE = 6
_TRANSPOSE = (("sym", "T"), ("sym", "t"), ("const", "⊤"))


def determinant(matrix: Node) -> Node:
    """By expansion along the first row; at most 6 × 6."""
    rows = matrix[1]
    if len(rows) != len(rows[0]):
        raise Unreadable("the determinant of a matrix that is not square")
    if len(rows) > MAX_SIZE:
        raise TooLarge("a determinant")
    if len(rows) == 1:
        return rows[0][0]
    terms = []
    for column, head in enumerate(rows[0]):
        minor = ("matrix", tuple(row[:column] + row[column + 1 :] for row in rows[1:]))
        term = ("mul", head, determinant(minor))
        terms.append(nodes.negate(term) if column % 2 else term)
    return nodes.add(*terms)


def simplified(node: Node) -> Node:
    """Scalar multiples, sums and products of matrices carried out; anything else as it is."""
    tag = node[0]
    if tag == "neg" and (inside := simplified(node[1]))[0] == "matrix":
        return _each(inside, nodes.negate)
    if tag == "div" and (inside := simplified(node[1]))[0] == "matrix":
        return _each(inside, lambda cell: ("div", cell, node[2]))
    if tag == "pow" and node[2] in _TRANSPOSE and (inside := simplified(node[1]))[0] == "matrix":
        return ("matrix", tuple(zip(*inside[1], strict=True)))
    if tag == "mul":
        return _product([simplified(part) for part in node[1:]])
    if tag == "add":
        return _sum([simplified(part) for part in node[1:]])
    if tag == "bracket" and all(row[0] == "bracket" for row in node[1]) and len({len(row[1]) for row in node[1]}) == 1:
        return ("matrix", tuple(row[1] for row in node[1]))
    if tag == "tuple" and node[1] and all(row[0] == "tuple" for row in node[1]):
        return node
    return node


def _each(matrix: Node, change: object) -> Node:
    return ("matrix", tuple(tuple(change(cell) for cell in row) for row in matrix[1]))  # type: ignore[operator]


def _product(factors: list[Node]) -> Node:
    matrices = [factor for factor in factors if factor[0] in ("matrix", "tuple")]
    scalars = [factor for factor in factors if factor[0] not in ("matrix", "tuple")]
    if not matrices or (len(matrices) > 1 and any(matrix[0] == "tuple" for matrix in matrices)):
        return nodes.multiply(*factors)
    result = matrices[0]
    for matrix in matrices[1:]:
        result = _times(result, matrix)
    if not scalars:
        return result
    if result[0] == "tuple":
        return ("tuple", tuple(("mul", *scalars, item) for item in result[1]))
    return _each(result, lambda cell: ("mul", *scalars, cell))


def _times(left: Node, right: Node) -> Node:
    if len(left[1][0]) != len(right[1]):
        raise Unreadable("a product of matrices that do not fit")
    columns = list(zip(*right[1], strict=True))
    return (
        "matrix",
        tuple(
            tuple(nodes.add(*(("mul", a, b) for a, b in zip(row, column, strict=True))) for column in columns)
            for row in left[1]
        ),
    )


def _sum(terms: list[Node]) -> Node:
    kinds = {term[0] for term in terms}
    if kinds == {"matrix"} and len({(len(term[1]), len(term[1][0])) for term in terms}) == 1:
        rows = zip(*(term[1] for term in terms), strict=True)
        return ("matrix", tuple(tuple(nodes.add(*cells) for cells in zip(*row, strict=True)) for row in rows))
    if kinds == {"tuple"} and len({len(term[1]) for term in terms}) == 1:
        return ("tuple", tuple(nodes.add(*cells) for cells in zip(*(term[1] for term in terms), strict=True)))
    return nodes.add(*terms)
