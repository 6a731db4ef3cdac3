"""One shape for answers that are written in several: ± written out, assignments told from equations, systems, bases."""

from __future__ import annotations

from plaudit_math import nodes
from plaudit_math.equations import assigned
from plaudit_math.matrices import simplified
from plaudit_math.nodes import Node
from plaudit_math.scalars import same_value

MAX_SIGNS = 4


def shape(node: Node) -> Node:
    """The node in the form that `compare` looks at."""
    tag = node[0]
    if tag == "list":
        return _list(node)
    if tag in ("add", "mul", "neg", "div", "pow") and nodes.contains(node, "matrix", "tuple", "sym"):
        node = simplified(node)
        if (vector := _unit_vectors(node)) is not None:
            return vector
    if tag == "bracket":
        node = simplified(node)
    if tag == "rel":
        return _relation(node)
    if node[0] in nodes.SCALARS and nodes.contains(node, "pm"):
        return _signs(node)
    if node[0] == "set" and any(nodes.contains(item, "pm") for item in node[1]):
        return ("set", tuple(part for item in node[1] for part in _parts(item)))
    return node


def _parts(item: Node) -> tuple[Node, ...]:
    shaped = shape(item)
    return shaped[2] if shaped[0] == "list" else (shaped,)


def _signs(node: Node) -> Node:
    """2 ± √3 as the two values; the upper signs go together."""
    both = (_with_sign(node, 1), _with_sign(node, -1))
    return ("list", "and", both)


def _with_sign(node: Node, sign: int) -> Node:
    if node[0] == "pm":
        inner = _with_sign(node[2], sign)
        return inner if node[1] * sign > 0 else nodes.negate(inner)
    return tuple(_with_sign(part, sign) if _is_node(part) else _inside(part, sign) for part in node)


def _inside(part: object, sign: int) -> object:
    if isinstance(part, tuple) and part and isinstance(part[0], tuple):
        return tuple(_with_sign(inner, sign) if _is_node(inner) else inner for inner in part)
    return part


def _is_node(part: object) -> bool:
    return isinstance(part, tuple) and bool(part) and isinstance(part[0], str) and part[0] in nodes.TAGS


def _relation(node: Node) -> Node:
    operators, sides = node[1], node[2]
    if operators in (("=",), ("≠",)) and nodes.contains(sides[1], "pm") and sides[0][0] == "sym":
        values = tuple(("rel", operators, (sides[0], value)) for value in _signs(sides[1])[2])
        return ("list", "or" if operators == ("=",) else "and", values)
    if operators == ("=",) and all(side[0] == "tuple" for side in sides) and len(sides[0][1]) == len(sides[1][1]):
        pairs = zip(sides[0][1], sides[1][1], strict=True)
        return ("list", "and", tuple(("rel", ("=",), pair) for pair in pairs))
    if (
        len(operators) > 1
        and set(operators) == {"="}
        and all(side[0] == "sym" for side in sides[:-1])
        and not nodes.symbols(sides[-1])
    ):
        return ("list", "and", tuple(("rel", ("=",), (side, sides[-1])) for side in sides[:-1]))
    if operators == ("∈",) and sides[1][0] == "set":
        values = tuple(("rel", ("=",), (sides[0], value)) for value in sides[1][1])
        return values[0] if len(values) == 1 else ("list", "or", values)
    return node


def _list(node: Node) -> Node:
    """n = 3, 4, 5 names each value; x ≠ 1, 2 excludes each; ± inside a list is written out."""
    joined, items = node[1], node[2]
    if not items:
        return node
    first = items[0]
    if first[0] == "rel" and len(first[1]) == 1 and first[1][0] in ("=", "≠") and is_plain(first[2][0]):
        items = (first, *(
            item if item[0] not in nodes.SCALARS else ("rel", first[1], (first[2][0], item)) for item in items[1:]
        ))  # fmt: skip
    if (
        first[0] == "rel"
        and first[1] == ("=",)
        and first[2][0][0] == "tuple"
        and all(i[0] == "tuple" for i in items[1:])
    ):
        items = (first[2][1], *items[1:])
        first = items[0]
    if first[0] in nodes.SCALARS or (first[0] == "rel" and first[1] == ("=",)):
        items = (first, *(item for item in items[1:] if not _side_condition(item)))
    if items[-1][0] == "cong" and items[-1][1] is None:
        items = _congruences(items)
    flat: list[Node] = []
    for item in items:
        shaped = shape(item)
        flat.extend(shaped[2] if shaped[0] == "list" else (shaped,))
    return ("list", joined, tuple(flat)) if len(flat) > 1 else (flat[0] if flat else ("list", joined, ()))


def _congruences(items: tuple[Node, ...]) -> tuple[Node, ...]:
    """x ≡ 1, 3 (mod 8): one modulus behind several residues."""
    first, modulus = items[0], items[-1][3]
    name = first[2][0] if first[0] == "rel" and first[1] == ("≡",) else None
    residues = [item[2][-1] if item[0] == "rel" else item[2] if item[0] == "cong" else item for item in items]
    return tuple(("cong", name, residue, modulus) for residue in residues)


def _side_condition(item: Node) -> bool:
    """k ∈ ℤ, x ≠ 2 behind a formula."""
    return item[0] == "rel" and (item[1] == ("≠",) or (item[1] == ("∈",) and item[2][1][0] == "const"))


def is_plain(side: Node) -> bool:
    return side[0] == "sym"


def _unit_vectors(node: Node) -> Node | None:
    """i + 2j in bold is the vector (1, 2)."""
    names = [name for name in nodes.symbols(node) if name in _AXES]
    if not names or node[0] in nodes.STRUCTURES:
        return None
    still = node
    for name in names:
        still = nodes.substitute(still, name, nodes.ZERO)
    if not same_value(still, nodes.ZERO):
        return nodes.substitute(node, "bold i", nodes.IMAGINARY) if names == ["bold i"] else None
    size = 3 if any(_AXES[name] == 2 for name in names) else 2
    zeros = dict.fromkeys(_AXES, nodes.ZERO)
    entries = []
    for axis in range(size):
        entry = node
        for name in names:
            entry = nodes.substitute(entry, name, nodes.ONE if _AXES[name] == axis else zeros[name])
        entries.append(entry)
    return ("tuple", tuple(entries))


_AXES = {
    f"{accent} {letter}": place for accent in ("bold", "hat", "vec", "widehat") for place, letter in enumerate("ijk")
}


def assignments(node: Node) -> list[tuple[Node, Node]] | None:
    """[(name, value)…] if the node is a list of assignments, or a single one."""
    items = node[2] if node[0] == "list" else (node,)
    found = [assigned(item) if item[0] == "rel" else None for item in items]
    return [pair for pair in found if pair] if found and all(found) else None
