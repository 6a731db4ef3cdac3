"""Units of measurement: names, conversion factors and dimensions, and how to read them from tokens."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from plaudit_math import nodes, vocabulary
from plaudit_math.nodes import Node
from plaudit_math.tokens import Token
from plaudit_math.unit_names import BASE, BINDERS, LONE_LETTERS, NOT_UNITS, PREFIXES, SQUARES


class Unit(NamedTuple):
    """`factor` times the base unit of its dimensions; `dimensions` is ((name, power), …) in order of name."""

    factor: Fraction
    dimensions: tuple[tuple[str, int], ...]


NONE = Unit(Fraction(1), ())


def combine(left: Unit, right: Unit, power: int) -> Unit:
    """left × right^power."""
    dimensions = dict(left.dimensions)
    for name, size in right.dimensions:
        dimensions[name] = dimensions.get(name, 0) + size * power
    kept = tuple(sorted((name, size) for name, size in dimensions.items() if size))
    return Unit(left.factor * right.factor**power, kept)


def currency(sign: str) -> Unit:
    """The unit of a sign such as $ or €."""
    return named(vocabulary.CURRENCY[sign]) or NONE


def named(word: str) -> Unit | None:
    """A single known unit by its name or symbol; None if there is no such unit."""
    found = BASE.get(word) or BASE.get(word.lower() if len(word) > 3 else word)
    if found is None and len(word) > 3 and word.endswith("s"):
        found = BASE.get(word.lower()[:-1])
    if found is None:
        return _prefixed(word)
    factor, dimensions = found
    return Unit(factor, dimensions)


def _prefixed(word: str) -> Unit | None:
    for prefix, scale in PREFIXES.items():
        rest = word[len(prefix) :]
        if (
            word.lower().startswith(prefix)
            and len(prefix) > 2
            and (found := BASE.get(rest.lower()) or BASE.get(rest.lower()[:-1]))
        ):
            return Unit(found[0] * scale, found[1])
    return None


def read(tokens: list[Token], start: int, *, loose: bool, things: bool) -> tuple[Unit, int] | None:
    """The unit that begins at `start` and how many tokens it takes; None where there is no unit.

    Unstyled letters are variables, not units, unless they are a known symbol of two letters or more, or `loose` allows
    a lone letter after a blank (25 m/s). With `things` an unknown word is something countable (12 apples).
    """
    if start < len(tokens) and tokens[start].kind == "cmd":
        return _quotient(tokens, start)
    unit, place, power, used = NONE, start, 1, False
    squared = 1
    while place < len(tokens):
        token = tokens[place]
        word = token.text
        if used and token.kind == "op" and word in ("/", "*", "per"):
            if not _is_unit(tokens, place + 1, loose=True, things=things):
                break
            power = -1 if word == "/" else power
            place += 1
            continue
        if token.kind == "word" and word.lower() in BINDERS:
            if word.lower() in ("per", "each", "every", "an"):
                power = -1
            squared = SQUARES.get(word.lower(), squared)
            place += 1
            continue
        part = _is_unit(tokens, place, loose=loose or used, things=things)
        if part is None:
            break
        raised, place = _exponent(tokens, place + 1)
        unit = combine(unit, part, power * raised * squared)
        used, squared = True, 1
    return (unit, place - start) if used else None


def _quotient(tokens: list[Token], place: int) -> tuple[Unit, int] | None:
    """\\frac{m}{s} with both letters in text."""
    texts = [token.text for token in tokens[place : place + 7]]
    if (
        len(texts) < 7
        or texts[0] not in ("frac", "dfrac", "tfrac")
        or [texts[i] for i in (1, 3, 4, 6)] != ["{", "}", "{", "}"]
    ):
        return None
    top = _is_unit(tokens, place + 2, loose=False, things=False)
    below = _is_unit(tokens, place + 5, loose=False, things=False)
    return (combine(top, below, -1), 7) if top and below and tokens[place + 2].styled else None


def _is_unit(tokens: list[Token], place: int, *, loose: bool, things: bool) -> Unit | None:
    if place >= len(tokens):
        return None
    token = tokens[place]
    if token.kind == "sym":
        if token.text not in LONE_LETTERS:
            return None
        if token.styled in ("text", "roman") or (loose and (token.spaced or (place and tokens[place - 1].text == "/"))):
            return named(token.text)
        return None
    if token.kind == "fn" and token.text in ("min", "deg"):
        return named(token.text)
    if token.kind == "op" and token.text in ("€", "£", "¥", "₹", "₩", "¢"):
        return currency(token.text)
    inch = token.text == "in" and (place + 1 == len(tokens) or tokens[place + 1].text == "^")
    if token.kind != "word" or (token.text.lower() in NOT_UNITS and not inch):
        return None
    known = named(token.text)
    if known:
        return known
    if not things:
        return None
    short = loose and token.spaced and len(token.text) == 3
    if short or token.styled == "text" or len(token.text) > 3 or not token.text.isascii():
        return Unit(Fraction(1), ((_singular(token.text.lower()), 1),))
    return None


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def _exponent(tokens: list[Token], place: int) -> tuple[int, int]:
    """The whole power behind a unit (cm^2, s^{-1}, m²), and the place after it."""
    if place >= len(tokens) or tokens[place].text != "^":
        return 1, place
    inside = list(tokens[place + 1 : place + 5])
    texts = [token.text for token in inside]
    if texts and texts[0].isdigit():
        return int(texts[0][:3]), place + 2
    if len(texts) >= 3 and texts[0] == "{" and texts[1].isdigit() and texts[2] == "}":
        return int(texts[1][:3]), place + 4
    if len(texts) >= 4 and texts[0] == "{" and texts[1] == "-" and texts[2].isdigit() and texts[3] == "}":
        return -int(texts[2][:3]), place + 5
    if len(texts) >= 2 and texts[0] == "-" and texts[1].isdigit():
        return -int(texts[1][:3]), place + 3
    return 1, place


def lifted_product(factors: list[Node]) -> Node:
    """2√3 cm: the unit of one factor is the unit of the product."""
    carriers = [factor for factor in factors if factor[0] == "qty"]
    if not carriers or len(factors) == 1:
        return nodes.multiply(*factors)
    unit = NONE
    for carrier in carriers:
        unit = combine(unit, carrier[2], 1)
    return ("qty", nodes.multiply(*(factor[1] if factor[0] == "qty" else factor for factor in factors)), unit)


def lifted_quotient(top: Node, below: Node) -> Node:
    """$3/4, 3/4 m, 60 km / 2 h."""
    if top[0] == "qty" and below[0] == "qty":
        return ("qty", ("div", top[1], below[1]), combine(top[2], below[2], -1))
    if top[0] == "qty":
        return ("qty", ("div", top[1], below), top[2])
    if below[0] == "qty" and below[1][0] in ("num", "dec"):
        return ("qty", ("div", top, below[1]), below[2])
    return ("div", top, below)


def lifted_sum(terms: list[Node]) -> Node:
    """3 cm + 4 cm, 3 + 4 cm: one unit for the sum, if they share one."""
    bare = [(term[1], 1) if term[0] == "neg" and term[1][0] == "qty" else (term, 0) for term in terms]
    found = {term[2] for term, _ in bare if term[0] == "qty"}
    if len(found) != 1:
        return nodes.add(*terms)
    parts = [(nodes.negate(term[1]) if minus else term[1]) if term[0] == "qty" else term for term, minus in bare]
    return ("qty", nodes.add(*parts), found.pop())
