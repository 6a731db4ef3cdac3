"""\\begin … \\end: matrices, systems of equations, functions by cases."""

from __future__ import annotations

from plaudit_math.atoms import Atoms
from plaudit_math.failures import Unreadable
from plaudit_math.naming import names
from plaudit_math.nodes import Node

_MATRICES = names("matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix array psmallmatrix bsmallmatrix")
_ROWS = names("cases aligned align align* gathered gather gather* split dcases rcases alignedat equation equation*")
_CONDITION_WORDS = names("if when for otherwise else where all")


class Environments(Atoms):
    """Needs from the outer layers: statement()."""

    def environment(self) -> Node:
        name = "".join(self.take().text for _ in range(3))[1:-1]
        if self.at("*"):
            self.position += 1
        if name == "array" and self.accept("{"):
            while not self.accept("}"):
                if self.take().kind == "end":
                    raise Unreadable("an array without columns")
        if name not in _MATRICES and name not in _ROWS:
            raise Unreadable(f"the environment {name}")
        self.enter()
        rows = self.rows()
        self.leave()
        if name in _MATRICES:
            return _matrix(name, rows)
        if (
            all(len(row) == 2 and row[1][0] in ("rel", "text", "list", "logic") for row in rows)
            and rows[0][0][0] != "rel"
        ):
            return ("cases", rows)
        flat = tuple(cell for row in rows for cell in row)
        return flat[0] if len(flat) == 1 else ("list", "and", flat)

    def rows(self) -> tuple[tuple[Node, ...], ...]:
        """Cells up to \\end{…}, split at & and \\\\."""
        rows: list[tuple[Node, ...]] = []
        cells: list[Node] = []
        while True:
            if self.accept("&"):
                continue
            if self.accept("\\\\") or (self.peek().kind == "cmd" and self.peek().text == "end"):
                if cells:
                    rows.append(tuple(cells))
                cells = []
                if self.peek().kind == "cmd" and self.peek().text == "end":
                    break
                continue
            cells.append(self.cell())
        self.position += 1
        if self.accept("{"):
            while not self.accept("}"):
                if self.take().kind == "end":
                    raise Unreadable("an environment that is never closed")
        if not rows:
            raise Unreadable("an empty environment")
        return tuple(rows)

    def cell(self) -> Node:
        words = []
        while self.peek().kind == "word" and self.peek().text.lower() in _CONDITION_WORDS:
            words.append(self.take().text.lower())
        if "otherwise" in words or "else" in words:
            return ("text", ("otherwise",))
        cell = self.statement()
        self.accept(",")
        return cell


def _matrix(name: str, rows: tuple[tuple[Node, ...], ...]) -> Node:
    if len({len(row) for row in rows}) != 1:
        raise Unreadable("a matrix whose rows differ in length")
    matrix = ("matrix", rows)
    return ("fn", "det", matrix) if name == "vmatrix" else matrix
