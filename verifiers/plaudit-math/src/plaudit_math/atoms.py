"""The innermost layer of the parser: literals, symbols, groups, and the functions that take arguments."""

from __future__ import annotations

from plaudit_math import nodes, vocabulary
from plaudit_math.failures import Unreadable
from plaudit_math.functions import Functions
from plaudit_math.literals import repeating_decimal
from plaudit_math.nodes import Node
from plaudit_math.tokens import Token

_CLOSERS = {"(": (")", "]", "["), "[": ("]", ")", "["), "]": ("[", "]"), "⟨": ("⟩",), "{set": ("}set",), "{": ("}",)}
_APPLIED = frozenset("fghFGHPEQ")


class Atoms(Functions):
    """Needs from the outer layers: answer(), additive(), factor()."""

    def atom(self) -> Node:
        token = self.peek()
        if token.kind == "num":
            self.position += 1
            return nodes.number(token.text)
        if token.kind == "based":
            self.position += 1
            digits, _, base = token.text.partition("_")
            return ("based", digits, int(base))
        if token.kind == "rep":
            self.position += 1
            return repeating_decimal(token.text)
        if token.kind == "const":
            self.position += 1
            return ("const", token.text)
        if token.kind == "sym":
            self.position += 1
            return self.symbol(token.text)
        if token.kind == "fn":
            self.position += 1
            return self.function(token)
        if token.kind == "word":
            return self.word()
        if token.kind == "cmd":
            self.position += 1
            return self.command(token.text)
        return self.delimited()

    def symbol(self, name: str) -> Node:
        """A variable with its index and primes; f(…) where f names a function."""
        if name in ("e", "i") and not self.at("_", "'"):
            return ("const", name)
        name += self.index_text() + self.primes()
        if self.at("^") and self.peek(1).text == "{" and self.peek(2).text == "'":
            self.position += 2
            name += self.primes()
            self.expect("}")
        if name == "C" and self.at("(") and (pair := self.pair()):
            return ("fn", "binom", *pair)
        head = name.rstrip("'")
        inverse = (
            head in _APPLIED and self.at("^") and [self.peek(i).text for i in (1, 2, 3, 4)] == ["{", "-", "1", "}"]
        )
        if inverse:
            self.position += 5
            name += "^-1"
        brackets = ("(", "[") if head in ("E", "P") else ("(",)
        if (head in _APPLIED or name.endswith("'")) and self.at(*brackets) and not self.peek().spaced:
            return ("fn", f"call {name}", *self.arguments())
        return ("sym", name)

    def pair(self) -> tuple[Node, ...] | None:
        """(n, k) of C(n, k); None, and no step forward, for anything else in parentheses."""
        start = self.position
        arguments = self.arguments()
        if len(arguments) == 2:
            return arguments
        self.position = start
        return None

    def primes(self) -> str:
        count = 0
        while self.at("'", "''"):
            count += len(self.take().text)
        return "'" * count

    def index_text(self) -> str:
        """`_{n+1}` as text; an index is a name, not a value."""
        if not self.accept("_"):
            return ""
        if not self.at("{"):
            return "_" + self.take().text
        self.position += 1
        parts, depth = [], 1
        while depth:
            token = self.take()
            if token.kind == "end":
                raise Unreadable("an index is never closed")
            depth += {"{": 1, "}": -1}.get(token.text, 0)
            parts.append(token.text)
        return "_" + "".join(parts[:-1])

    def word(self) -> Node:
        """Unstyled letters in a row are a product, with known functions read out of them: xy, sinx."""
        token = self.take()
        if token.styled in ("text", "roman", "operator") or not is_product(token.text):
            raise Unreadable(f"the word {token.text!r}")
        pieces = _split_letters(token)
        self.tokens[self.position - 1 : self.position] = pieces
        self.position -= 1
        return self.atom()

    def delimited(self) -> Node:
        if self.at("|", "|("):
            return self.absolute()
        if self.at("‖"):
            self.position += 1
            inside = self.additive()
            self.expect("‖")
            return ("fn", "norm", inside)
        if self.at("⌊", "⌈"):
            floor = self.take().text == "⌊"
            inside = self.inside()
            self.expect("⌋" if floor else "⌉")
            return ("fn", "floor" if floor else "ceil", inside)
        if self.accept("…"):
            return ("sym", "…")
        opening = self.accept(*_CLOSERS)
        if opening is None:
            raise Unreadable(f"unexpected {self.peek().text or 'end'}")
        return self.group(opening)

    def inside(self, opening: str = "(") -> Node:
        """An answer within a group. The bracket that opened it decides what : and [ mean in there."""
        self.enter()
        before, self.bars, self.opened = (self.bars, self.opened), 0, opening
        found = self.answer()
        self.bars, self.opened = before
        self.leave()
        return found

    def absolute(self) -> Node:
        self.position += 1
        self.enter()
        self.bars += 1
        found = self.additive()
        self.bars -= 1
        self.leave()
        self.expect("|", "|)")
        return ("fn", "det" if found[0] == "matrix" else "abs", found)

    def group(self, opening: str) -> Node:
        """(…), […], {…}, ⟨…⟩ and the half-open intervals that mix them."""
        if opening == "{set" and self.accept("}set"):
            return ("set", ())
        if opening in ("(", "{") and self.accept(")", "}"):
            return ("list", ",", ())
        inside = self.inside(opening)
        condition = self.such_that(inside) if opening in ("{set", "{") else None
        closing = self.expect(*_CLOSERS[opening])
        if condition is not None:
            return condition
        if inside[0] == "list":
            return _bracketed(opening, closing, inside)
        if opening in ("{set",):
            return ("set", (inside,))
        if opening == "⟨":
            return ("tuple", (inside,))
        if closing not in (")", "]", "}") or (opening, closing) in (("(", "]"), ("[", ")")):
            raise Unreadable("brackets that do not match around one value")
        if opening == "[" and inside[0] == "bracket":
            return ("bracket", (inside,))
        return inside

    def such_that(self, inside: Node) -> Node | None:
        """{x | x > 2}, {x ∈ ℝ : x > 2}: what stands behind the bar."""
        if inside[0] == "ratio" and len(inside[1]) == 2 and inside[1][0][0] == "sym":
            return None
        if not self.accept("mid", "|", ":"):
            return None
        return self.inside()

    def arguments(self) -> tuple[Node, ...]:
        """(a, b) behind the name of a function, as nodes."""
        self.expect("(", "[", "{", "{set")
        inside = self.inside()
        if self.accept("mid", "|"):
            inside = ("fn", "given", inside, self.inside())
        self.expect(")", "]", "}", "}set")
        return inside[2] if inside[0] == "list" else (inside,)


def _is_short_word(letters: str) -> bool:
    """the, The; NO and BO are segments."""
    lowered = letters.lower()
    return lowered in vocabulary.SHORT_WORDS and letters in (lowered, lowered.capitalize())


def is_product(letters: str) -> bool:
    """May letters in a row be a product of variables, rather than a word?"""
    if not letters.isascii() or len(letters) > 6 or _is_short_word(letters):
        return False
    if len(letters) <= 3:
        return len(letters) < 3 or not letters.isupper()
    head = next((name for name in vocabulary.FUNCTION_NAMES if letters.startswith(name)), "")
    if head or letters.startswith("pi"):
        return len(letters) - len(head or "pi") <= 2
    return len(letters) == 4 and (not set(letters.lower()) & set("aeiou") or list(letters) == sorted(letters))


def _bracketed(opening: str, closing: str, inside: Node) -> Node:
    items = inside[2]
    pair = len(items) == 2
    if (opening, closing) == ("(", ")"):
        return ("tuple", items)
    if opening == "⟨":
        return ("tuple", items)
    if opening == "{":
        return inside
    if opening == "{set":
        return ("set", items)
    if (opening, closing) == ("[", "]"):
        return ("bracket", items)
    if not pair:
        raise Unreadable("an interval needs two ends")
    return ("interval", opening in ("(", "]"), items[0], items[1], closing in (")", "["))


def _split_letters(token: Token) -> list[Token]:
    pieces: list[Token] = []
    rest, spaced = token.text, token.spaced
    while rest:
        name = next((rest[:size] for size in (6, 5, 4, 3) if rest[:size] in vocabulary.FUNCTION_NAMES), None)
        if name and len(name) < len(rest) + 1 and name not in ("max", "min", "deg", "arg", "det", "Var", "Cov"):
            pieces.append(Token("fn", vocabulary.FUNCTION_SAME.get(name, name), spaced))
        else:
            name = "pi" if rest.startswith("pi") else rest[0]
            pieces.append(Token("const", "π", spaced) if name == "pi" else Token("sym", name, spaced))
        rest, spaced = rest[len(name) :], False
    return pieces
