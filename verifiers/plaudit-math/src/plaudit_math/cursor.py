"""A position in a list of tokens, shared by the layers of the parser."""

from __future__ import annotations

from plaudit_math.failures import Unreadable
from plaudit_math.tokens import Token

MAX_DEPTH = 40
"""Groups within groups; keeps the recursive parser far from Python's own limit."""
END = Token("end", "")


class Cursor:
    """Looks at tokens one after another; `depth` counts the groups that are open."""

    def __init__(self, tokens: list[Token], *, loose_units: bool = False) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.bars = 0
        self.opened = ""
        self.loose_units = loose_units

    def peek(self, ahead: int = 0) -> Token:
        place = self.position + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def take(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def at(self, *operators: str) -> bool:
        if self.position >= len(self.tokens):
            return False
        token = self.tokens[self.position]
        return token[0] == "op" and token[1] in operators

    def accept(self, *operators: str) -> str | None:
        """The operator here if it is one of these, passed over; else None."""
        if self.position < len(self.tokens):
            token = self.tokens[self.position]
            if token[0] == "op" and token[1] in operators:
                self.position += 1
                return token[1]
        return None

    def expect(self, *operators: str) -> str:
        found = self.accept(*operators)
        if found is None:
            raise Unreadable(f"expected {' or '.join(operators)}, found {self.peek().text or 'the end'}")
        return found

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable(f"more than {MAX_DEPTH} groups inside each other")

    def leave(self) -> None:
        self.depth -= 1


def without_double_parentheses(tokens: list[Token]) -> list[Token]:
    """((x)) becomes (x), however deep. Linear: each parenthesis is matched once."""
    stack: list[int] = []
    partner: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if token.kind == "op" and token.text == "(":
            stack.append(place)
        elif token.kind == "op" and token.text == ")" and stack:
            partner[stack.pop()] = place
    doubled: set[int] = set()
    for opening, closing in partner.items():
        if partner.get(opening + 1) == closing - 1 and opening + 1 != closing:
            doubled |= {opening, closing}
    return [token for place, token in enumerate(tokens) if place not in doubled] if doubled else tokens


def merge_thousands(tokens: list[Token]) -> list[Token]:
    """12 , 345 outside brackets, without blanks, is one number."""
    merged: list[Token] = []
    depth = 0
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.kind == "op" and token.text in ("(", "[", "{set", "⟨"):
            depth += 1
        elif token.kind == "op" and token.text in (")", "]", "}set", "⟩"):
            depth -= 1
        if depth == 0 and token.kind == "num" and token.text.isdigit() and len(token.text) <= 3:
            token, place = _grouped(tokens, place)
        merged.append(token)
        place += 1
    return merged


def _grouped(tokens: list[Token], place: int) -> tuple[Token, int]:
    """The number that begins at `place` with all its groups, and the place of its last token."""
    digits, groups, sizes = tokens[place].text, place, []
    while groups + 2 < len(tokens):
        comma, group = tokens[groups + 1], tokens[groups + 2]
        whole, dot, _ = group.text.partition(".")
        tight = comma.kind == "op" and comma.text == "," and not comma.spaced and not group.spaced
        if not tight or group.kind != "num" or len(whole) not in (2, 3) or "e" in group.text:
            break
        sizes.append(len(whole))
        digits += group.text
        groups += 2
        if dot:
            break
    western = sizes and all(size == 3 for size in sizes)
    indian = (
        len(sizes) > 1 and sizes[-1] == 3 and all(size == 2 for size in sizes[:-1]) and len(tokens[place].text) <= 2
    )
    if digits.startswith("0") or not (western or indian):
        return tokens[place], place
    return tokens[place]._replace(text=digits), groups
