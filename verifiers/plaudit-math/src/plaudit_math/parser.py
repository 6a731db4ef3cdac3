"""The outer layers of the parser: powers, products, sums, sets, relations, lists."""

from __future__ import annotations

from plaudit_math.cursor import without_double_parentheses
from plaudit_math.failures import Unreadable
from plaudit_math.nodes import Node
from plaudit_math.terms import Terms
from plaudit_math.tokens import Token

_RELATIONS = ("mid", "∼", "=", "≠", "<", ">", "≤", "≥", "∈", "∉", "≈", "≅", "≡", "⟂", "∥", "⊂", "⊆", "≪", "≫", "∝")
_LOGIC = {"↔": 1, "→": 2, "∨": 3, "⊕": 3, "∧": 4}
_SEPARATORS = (",", ";", "and", "or", "\\\\")


def parse(tokens: list[Token], *, loose_units: bool = False) -> Node:
    """The node of a whole answer. Raises Unreadable or TooLarge."""
    parser = Parser(without_double_parentheses(list(tokens)), loose_units=loose_units)
    try:
        found = parser.answer()
    except RecursionError:
        raise Unreadable("nested too deeply") from None
    if parser.peek().kind != "end":
        raise Unreadable(f"unexpected {parser.peek().text!r}")
    return found


class Parser(Terms):
    def answer(self) -> Node:
        """Statements in a row; one alone is itself."""
        items = [self.statement()]
        joined = ""
        while (separator := self.accept(*_SEPARATORS)) is not None:
            joined = separator if separator in ("and", "or") or not joined else joined
            while (separator := self.accept(*_SEPARATORS)) is not None:
                joined = separator if separator in ("and", "or") else joined
            if self.peek().kind == "end" or self.at(")", "]", "}", "}set"):
                break
            items.append(self.statement())
        return ("list", joined, tuple(items)) if joined and len(items) > 1 else items[0]

    def statement(self) -> Node:
        quantifier = self.accept("∀", "∃")
        if quantifier is not None:
            condition = self.statement()
            self.accept(",", ":")
            if self.peek().kind == "end":
                return ("quant", quantifier, condition)
            return ("quant", quantifier, self.statement())
        stated = self.logic(0)
        if self.accept("∀") is None:
            return stated
        condition = self.statement()
        return stated if condition[0] == "sym" or condition[1] == ("∈",) else ("quant", "∀", stated)

    def logic(self, least: int) -> Node:
        if self.accept("¬") or (self.at("∼") and self.peek(1).kind == "sym" and self.accept("∼")):
            left: Node = ("logic", "¬", self.logic(5))
        else:
            left = self.relation()
        while self.peek().kind == "op" and _LOGIC.get(self.peek().text, 0) > least:
            operator = self.take().text
            right = self.logic(_LOGIC[operator] - (operator == "→"))
            left = ("logic", operator, left, right)
        return left

    def relation(self) -> Node:
        operators: list[str] = []
        while self.at("≈", "=", "∼") and not operators:
            self.position += 1
        sides = [self.ratio()]
        while not (self.at("mid") and self.depth) and (operator := self.accept(*_RELATIONS)) is not None:
            operators.append(operator)
            sides.append(self.ratio())
        if operators == ["≡"] and sides[1][:2] == ("fn", "mod"):
            return ("cong", sides[0], *sides[1][2:])
        modulus = self.modulus()
        if modulus is not None:
            return ("cong", sides[0] if operators else None, sides[-1], modulus)
        return ("rel", tuple(operators), tuple(sides)) if operators else sides[0]

    def modulus(self) -> Node | None:
        """\\pmod 9, (mod 9), \\mod{9} behind a congruence."""
        token = self.peek()
        if token.kind == "cmd" and token.text in ("pmod", "mod", "pod"):
            self.position += 1
            return self.atom()
        if self.at("(") and self.peek(1).text == "mod":
            self.position += 2
            modulus = self.additive()
            self.expect(")")
            return modulus
        return None

    def ratio(self) -> Node:
        parts = [self.sets()]
        while self.at(":") and self.peek(1).kind != "end" and self.opened not in ("{", "{set"):
            self.position += 1
            parts.append(self.sets())
        return ("ratio", tuple(parts)) if len(parts) > 1 else parts[0]

    def sets(self) -> Node:
        left = self.additive()
        while (operator := self.accept("∪", "∩", "∖")) is not None:
            name = {"∪": "union", "∩": "meet", "∖": "minus"}[operator]
            left = (name, left, self.additive())
        return left
