"""Sums, products and powers, and what is written behind a number: mixed fractions, percent signs, degrees, units."""

from __future__ import annotations

from fractions import Fraction

from plaudit_math import nodes, units
from plaudit_math.atoms import is_product
from plaudit_math.commands import Commands
from plaudit_math.failures import Unreadable
from plaudit_math.functions import chosen
from plaudit_math.nodes import Node

_STARTS = ("(", "[", "{", "|(", "⌊", "⌈", "‖", "⟨")
_NAMES_OF_DIGITS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
                    "twelve": 12, "sixteen": 16}  # fmt: skip


class Terms(Commands):
    """Needs from the outer layer: answer()."""

    def additive(self) -> Node:
        terms: list[Node] = []
        while True:
            sign = self.accept("+", "-", "±", "∓")
            if terms and sign is None:
                break
            inner = self.accept("-") if sign in ("+", "±") else None
            term = self.term()
            term = nodes.negate(term) if inner else term
            if sign == "-":
                term = _negated(term)
            elif sign in ("±", "∓"):
                term = ("pm", 1 if sign == "±" else -1, term)
            terms.append(term)
        return units.lifted_sum(terms)

    def term(self) -> Node:
        left = self.product()
        while True:
            if self.at("*", "/", "mod", "∘", "⋆"):
                operator = self.take().text
                right = self.signed_product() if operator == "mod" else self.signed_factor()
                left = _combined(operator, left, right)
                if self.starts_operand():
                    left = units.lifted_product([left, self.product()])
            elif self.at("over", "choose"):
                operator = self.take().text
                right = self.additive()
                left = ("div", left, right) if operator == "over" else ("fn", "binom", left, right)
            else:
                return left

    def signed_product(self) -> Node:
        return nodes.negate(self.product()) if self.accept("-") else self.product()

    def signed_factor(self) -> Node:
        negative = self.accept("-", "+")
        factor = self.factor()
        return nodes.negate(factor) if negative == "-" else factor

    def product(self) -> Node:
        """Factors written next to each other, and mixed numbers."""
        factors = [self.factor()]
        while True:
            mixed = self.mixed(factors[-1]) if len(factors) == 1 else None
            if mixed is not None:
                factors[-1] = self.with_unit(mixed)
            elif self.starts_operand() or (factors[-1][:2] == ("fn", "factorial") and self.peek().kind == "num"):
                factors.append(self.factor())
            elif factors[-1][0] == "qty" and self.peek().kind == "num":
                return self.compound_quantity(factors)
            else:
                return units.lifted_product(factors)

    def compound_quantity(self, factors: list[Node]) -> Node:
        """5 ft 3 in, 2 hours 30 minutes: quantities in a row add up."""
        parts = list(factors)
        while self.peek().kind == "num":
            part = self.factor()
            if part[0] != "qty" or part[2].dimensions != parts[0][2].dimensions:
                raise Unreadable("two numbers without an operator between them")
            parts.append(part)
        unit = parts[0][2]
        total = nodes.add(*(nodes.multiply(part[1], ("num", part[2].factor / unit.factor)) for part in parts))
        return ("qty", total, unit)

    def mixed(self, whole: Node) -> Node | None:
        """3\\frac{1}{2}, 3 1/2: a whole number and a proper fraction."""
        if not nodes.is_integer(whole):
            return None
        token, start = self.peek(), self.position
        braced = token.kind == "op" and token.text == "{" and self.peek(1).kind == "cmd"
        head = self.peek(1) if braced else token
        if head.kind == "cmd" and head.text in ("frac", "dfrac", "tfrac") and self.peek(-1).kind == "num":
            fraction = self.factor()
        elif token.kind == "num" and token.spaced and self.peek(1).text == "/" and self.peek(2).kind == "num":
            self.position += 3
            fraction = ("div", nodes.number(token.text), nodes.number(self.peek(-1).text))
        else:
            return None
        wrapped = fraction if fraction[0] in ("pct", "qty") else None
        fraction = wrapped[1] if wrapped else fraction
        top, below = fraction[1:] if fraction[0] == "div" else (None, None)
        proper = top and nodes.is_integer(top) and nodes.is_integer(below) and 0 < top[1] < below[1]
        if not proper:
            self.position = start
            return None
        total: Node = ("num", whole[1] + Fraction(top[1], below[1]))
        return (wrapped[0], total, *wrapped[2:]) if wrapped else total

    def starts_operand(self) -> bool:
        token = self.peek()
        if token.kind in ("sym", "const", "fn"):
            return not token.styled or token.styled != "text"
        if token.kind == "cmd":
            return token.text not in ("end", "pmod", "mod", "pod")
        if token.kind == "word":
            return not token.styled and is_product(token.text)
        if token.kind == "op":
            if token.text == "(" and self.peek(1).text == "mod":
                return False
            if token.text == "|":
                return self.bars == 0 and self.depth == 0
            return token.text in _STARTS and not (token.text == "[" and self.opened == "]")
        return False

    def factor(self) -> Node:
        """An atom with what is written behind it: index, !, ', %, ^, degrees, a unit."""
        if (token := self.peek()).kind == "op" and token.text in ("$", "€", "£", "¥", "₹", "₩"):
            self.position += 1
            negative = self.accept("-")
            amount = self.factor()
            return ("qty", nodes.negate(amount) if negative else amount, units.currency(token.text))
        base = self.atom()
        while self.peek().kind == "op":
            if self.at("!"):
                self.position += 1
                base = ("fn", "factorial", base)
            elif self.accept("%"):
                base = ("pct", base)
            elif self.accept("°"):
                base = self.degrees(base)
            elif self.at("_") and base[0] in ("num", "sym", "mul"):
                base = self.in_base(base)
            elif self.at("^"):
                base = self.raised(base)
            else:
                break
        return self.with_unit(base)

    def degrees(self, base: Node) -> Node:
        scale = self.peek().text if self.peek().kind == "sym" else ""
        if scale in ("C", "F"):
            self.position += 1
        return ("qty", base, units.named("°" + (scale if scale in ("C", "F") else "")))

    def in_base(self, digits: Node) -> Node:
        start = self.position
        self.position += 1
        braced = self.accept("{")
        token = self.take()
        base = (
            int(token.text)
            if token.text.isdigit() and len(token.text) < 3
            else _NAMES_OF_DIGITS.get(token.text.lower(), 0)
        )
        if braced and not self.accept("}"):
            base = 0
        if digits[0] == "num" and nodes.is_integer(digits) and 2 <= base <= 36:
            return ("based", str(digits[1]), base)
        self.position = start
        raise Unreadable("an index on a number")

    def raised(self, base: Node) -> Node:
        self.position += 1
        token, following = self.peek(), self.peek(1)
        if base == ("const", "ℝ") and (signed := self.signed_reals(token.text, following.text)) is not None:
            return signed
        if base[0] == "sym" and (token.text == "*" or (token.text == "{" and following.text == "*")):
            self.position += 3 if token.text == "{" else 1
            return ("sym", f"{base[1]}*")
        if token.text in ("∘", "°"):
            self.position += 1
            return self.degrees(base)
        if token.text == "{" and following.text in ("∘", "°") and self.peek(2).text == "}":
            self.position += 3
            return self.degrees(base)
        exponent = self.power_argument_with_primes()
        return chosen(base, exponent) or ("pow", base, exponent)

    def signed_reals(self, first: str, second: str) -> Node | None:
        """ℝ^+, ℝ^{-}, ℝ^*: half lines, and the line without zero."""
        sign = second if first == "{" else first
        if sign not in ("+", "-", "*"):
            return None
        self.position += 3 if first == "{" else 1
        if sign == "*":
            return ("minus", ("const", "ℝ"), ("set", (nodes.ZERO,)))
        low, high = (nodes.ZERO, nodes.INFINITY) if sign == "+" else (nodes.negate(nodes.INFINITY), nodes.ZERO)
        return ("interval", True, low, high, True)

    def power_argument_with_primes(self) -> Node:
        exponent = self.power_argument()
        if self.accept("!"):
            exponent = ("fn", "factorial", exponent)
        if self.at("^"):
            self.position += 1
            exponent = ("pow", exponent, self.power_argument_with_primes())
        return exponent

    def with_unit(self, base: Node) -> Node:
        token = self.peek()
        if token.kind == "word" and token.text.lower() in ("percent", "percentage", "pct", "percents"):
            self.position += 1
            return ("pct", base)
        if base[0] in ("sym", "const") and token.kind != "word" and not token.styled:
            return base
        loose = self.loose_units and base[0] in ("num", "dec", "div", "pow") and not nodes.symbols(base)
        things = base[0] not in ("sym", "const")
        readable = token.kind in ("word", "sym", "fn", "op", "cmd")
        found = units.read(self.tokens, self.position, loose=loose, things=things) if readable else None
        if found is None or base[0] in ("list", "tuple", "set", "text"):
            return base
        unit, count = found
        self.position += count
        return ("qty", base, unit)


def _negated(term: Node) -> Node:
    """-3 mod 7 is the remainder of -3."""
    return (*term[:2], nodes.negate(term[2]), term[3]) if term[:2] == ("fn", "mod") else nodes.negate(term)


def _combined(operator: str, left: Node, right: Node) -> Node:
    if operator in ("⋆", "∘", "mod"):
        return ("fn", operator, left, right)
    return units.lifted_product([left, right]) if operator == "*" else units.lifted_quotient(left, right)
