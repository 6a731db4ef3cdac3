"""LaTeX commands with arguments: fractions, binomials, sums, integrals, limits, derivatives, matrices, cases."""

from __future__ import annotations

from plaudit_math import nodes
from plaudit_math.environments import Environments
from plaudit_math.failures import Unreadable
from plaudit_math.naming import names
from plaudit_math.nodes import Node

_FRACTIONS = frozenset(["frac", "dfrac", "tfrac", "cfrac", "nicefrac", "sfrac"])
_BINOMIALS = frozenset(["binom", "dbinom", "tbinom"])
_ACCENTS = names(
    "overline bar hat widehat vec overrightarrow tilde widetilde dot ddot overbrace underbrace overleftrightarrow "
    "wideparen overparen overset underset stackrel"
)


class Commands(Environments):
    """Needs from the outer layers: answer(), additive(), term(), statement()."""

    def command(self, name: str) -> Node:
        if name in _FRACTIONS:
            return self.fraction()
        if name in _BINOMIALS:
            top = self.tex_argument()
            return ("fn", "binom", top, self.tex_argument())
        if name in _ACCENTS:
            return self.accent(name)
        if name in ("sum", "prod"):
            return self.series(name)
        if name == "int":
            return self.integral()
        if name == "lim":
            return self.limit()
        if name == "begin":
            return self.environment()
        if name in ("angle", "triangle", "measuredangle", "odot"):
            return ("sym", f"{name} {self.letters(reverse=name != 'odot')}")
        if name == "pmod":
            self.position -= 1
            raise Unreadable("a modulus without a residue")
        raise Unreadable(f"the command \\{name}")

    def tex_argument(self) -> Node:
        """A braced group, or one digit or letter as TeX takes it: \\frac12, \\frac1x."""
        token = self.peek()
        if token.kind == "num" and len(token.text) > 1 and token.text.isdigit():
            self.tokens[self.position : self.position + 1] = [
                token._replace(text=token.text[0]), token._replace(text=token.text[1:], spaced=False)
            ]  # fmt: skip
        if token.kind == "word" and token.text.isascii() and not token.styled:
            first = token._replace(kind="sym", text=token.text[0])
            rest = token._replace(kind="sym" if len(token.text) == 2 else "word", text=token.text[1:])
            self.tokens[self.position : self.position + 1] = [first, rest]
        return self.atom()

    def fraction(self) -> Node:
        top = self.tex_argument()
        below = self.tex_argument()
        derivative = self.derivative(top, below)
        return derivative if derivative is not None else ("div", top, below)

    def derivative(self, top: Node, below: Node) -> Node | None:
        """d/dx f, dy/dx, d²/dx² f, with d or ∂."""
        order, below_factors = 1, below[1:] if below[0] == "mul" else (below,)
        head, *subject = top[1:] if top[0] == "mul" else (top,)
        if head[0] == "pow" and head[1] in _D and nodes.is_integer(head[2]):
            order, head = int(head[2][1]), head[1]
        if head not in _D or len(below_factors) != 2 or below_factors[0] != head:
            return None
        variable = below_factors[1]
        if order > 1 and variable[0] == "pow":
            variable = variable[1]
        if variable[0] != "sym" or not 1 <= order <= 10:
            return None
        if subject and subject[0][0] == "sym" and len(subject) == 1:
            return ("sym", subject[0][1] + "'" * order)
        body = nodes.multiply(*subject) if subject else self.product()
        return ("deriv", body, variable[1], order)

    def accent(self, name: str) -> Node:
        if name in ("overset", "underset", "stackrel"):
            self.tex_argument()
            return self.tex_argument()
        start = self.position
        if self.at("{"):
            letters = self.letters(reverse=name == "overline")
            if len(letters) > 1:
                return ("sym", f"{name} {letters}")
            self.position = start
        inside = self.tex_argument()
        if name in ("overline", "bar") and inside[0] != "sym":
            return ("fn", "conj", inside)
        if inside[0] == "sym" or inside == nodes.IMAGINARY:
            return ("sym", f"{name} {inside[1]}")
        return ("fn", name, inside)

    def letters(self, *, reverse: bool) -> str:
        """A name of points (ABC), in the same order whichever way it is written; "" if there is none here."""
        braced = self.accept("{")
        token = self.peek()
        name = ""
        while token.kind in ("sym", "word") and token.text.isalpha():
            name += self.take().text
            token = self.peek()
        if braced and not self.accept("}"):
            return ""
        return min(name, name[::-1]) if reverse else name

    def series(self, name: str) -> Node:
        self.expect("_")
        self.expect("{")
        index = self.take()
        if index.kind not in ("sym", "const") or not self.accept("="):
            raise Unreadable(f"the index of \\{name}")
        low = self.inside()
        self.expect("}")
        self.expect("^")
        high = self.atom()
        body = self.product()
        return (name, index.text, low, high, _bind(body, index.text))

    def integral(self) -> Node:
        low = self.atom() if self.accept("_") else None
        high = self.power_argument() if self.accept("^") else None
        if low is None and self.accept("_"):
            low = self.atom()
        end = self.differential()
        if end is None:
            raise Unreadable("an integral without dx")
        place, width = end
        variable = self.tokens[place + width - 1].text
        if width == 1:
            variable = self.tokens[place].text[1:]
        rest = self.tokens[place + width :]
        inner = self.tokens[self.position : place]
        self.tokens = self.tokens[: self.position] + inner
        body = self.additive() if inner else nodes.ONE
        if self.peek().kind != "end":
            raise Unreadable("an integral that ends early")
        self.tokens = self.tokens + rest
        return ("int", variable, low, high, body)

    def differential(self) -> tuple[int, int] | None:
        """Where the next dx stands at this depth, and how many tokens it takes."""
        depth = 0
        for place in range(self.position, len(self.tokens)):
            token = self.tokens[place]
            if token.kind == "op":
                depth += (token.text in "([{") - (token.text in ")]}") if len(token.text) == 1 else 0
            if depth == 0 and token.kind == "word" and len(token.text) == 2 and token.text[0] == "d":
                return place, 1
            following = self.tokens[place + 1] if place + 1 < len(self.tokens) else None
            if depth == 0 and token.text == "d" and following is not None and following.kind == "sym":
                return place, 2
        return None

    def limit(self) -> Node:
        self.expect("_")
        self.expect("{")
        variable = self.take().text
        self.expect("→")
        target = self.additive() if not self.at("∞") else self.atom()
        side = 0
        if self.accept("^"):
            braced = self.accept("{")
            side = 1 if self.expect("+", "-") == "+" else -1
            if braced:
                self.expect("}")
        self.expect("}")
        return ("lim", variable, target, side, self.product())


_D = (("sym", "d"), ("sym", "partial"))


def _bind(body: Node, index: str) -> Node:
    """An index named i or e is a variable in the body, not a constant."""
    if index not in ("i", "e"):
        return body
    return _renamed(body, ("const", index), ("sym", index))


def _renamed(node: Node, old: Node, new: Node) -> Node:
    if node == old:
        return new
    return tuple(_renamed(part, old, new) if isinstance(part, tuple) else part for part in node)
