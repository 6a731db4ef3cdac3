"""Named functions with their powers, indices and arguments: \\sin^2 x, \\log_2 8, \\sqrt[3]{x}, gcd(a, b)."""

from __future__ import annotations

from plaudit_math import nodes, vocabulary
from plaudit_math.cursor import Cursor
from plaudit_math.failures import Unreadable
from plaudit_math.naming import names
from plaudit_math.nodes import Node
from plaudit_math.tokens import Token

_MULTIPLE = names("gcd lcm max min Pr Cov Var P")


class Functions(Cursor):
    """Needs from the outer layers: atom(), factor(), inside(), arguments()."""

    def function(self, token: Token) -> Node:
        """A named function with its power, index and argument: \\sin^2 x, \\log_2 8, \\sqrt[3]{x}, gcd(a, b)."""
        name = token.text
        if name == "sqrt":
            return self.root()
        if name == "cis":
            angle = self.function_arguments(name)
            return ("add", ("fn", "cos", *angle), ("mul", nodes.IMAGINARY, ("fn", "sin", *angle)))
        base = self.atom() if name in ("log", "lg", "ln") and self.accept("_") else None
        power = self.power_argument() if self.accept("^") else None
        if self.accept("_"):
            base = self.atom()
        if power is not None and power == nodes.integer(-1):
            inverse = vocabulary.FUNCTION_SAME.get(f"arc{name}", f"arc{name}")
            return ("fn", inverse, *self.function_arguments(name))
        call: Node = ("fn", name, *self.function_arguments(name))
        if base is not None and name == "log":
            call = ("fn", "log", *call[2:], base)
        return ("pow", call, power) if power is not None else call

    def function_arguments(self, name: str) -> tuple[Node, ...]:
        if self.at("(") or (name in _MULTIPLE and self.at("{set", "[", "{")):
            return self.arguments()
        return (self.bare_argument(),)

    def bare_argument(self) -> Node:
        """\\sin 2t: the factors up to a sign, a relation or the next function."""
        factors = [self.factor()]
        while True:
            token = self.peek()
            if token.kind in ("fn", "end") or (token.kind == "op" and token.text not in ("{", "|(", "⌊")):
                break
            if token.kind == "word" and (token.styled or len(token.text) > 3):
                break
            if token.kind == "num" or (token.kind == "cmd" and token.text in ("cdot", "begin", "pmod")):
                break
            factors.append(self.factor())
        argument = nodes.multiply(*factors)
        if self.at("/") and self.peek(1).kind == "num":
            self.position += 1
            argument = ("div", argument, self.factor())
        return argument

    def root(self) -> Node:
        degree: Node | None = None
        if self.at("["):
            self.position += 1
            degree = self.inside()
            self.expect("]")
        argument = self.atom()
        if argument[0] == "list":
            raise Unreadable("a root of a list")
        return ("fn", "root", argument, degree if degree is not None else nodes.integer(2))

    def power_argument(self) -> Node:
        """What stands behind ^: a group, or a signed atom."""
        if self.accept("-"):
            return nodes.negate(self.atom())
        if self.accept("+"):
            return self.atom()
        return self.atom()


def chosen(base: Node, exponent: Node) -> Node | None:
    """C_n^k and A_n^k, P_n^k of school books: combinations and arrangements of k out of n."""
    if base[0] != "sym" or base[1][:2] not in ("C_", "A_", "P_") or exponent[0] not in ("num", "sym"):
        return None
    index = base[1][2:]
    if index.isdigit() and exponent[0] == "num" and exponent[1] <= int(index[:9]) > 1:
        out_of: Node = nodes.integer(int(index[:9]))
    elif index in ("n", "m", "N") and base[1][0] == "C":
        out_of = ("sym", index)
    else:
        return None
    return ("fn", "binom" if base[1][0] == "C" else "permutations", out_of, exponent)
