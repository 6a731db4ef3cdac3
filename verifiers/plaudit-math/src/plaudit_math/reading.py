"""From the text of an answer to the ways in which it can be read."""

from __future__ import annotations

import contextlib
import itertools
import re
from functools import lru_cache
from typing import NamedTuple

from plaudit_math import nodes, surface, words
from plaudit_math.atoms import is_product
from plaudit_math.cursor import merge_thousands
from plaudit_math.failures import TooLarge, Unreadable
from plaudit_math.nodes import Node
from plaudit_math.parser import parse
from plaudit_math.phrases import phrase
from plaudit_math.tokens import Token, tokenize

MAX_LENGTH = 8_000
"""Longer answers are compared as text only."""


class Reading(NamedTuple):
    """`nodes`: the readings, most natural first. `key`: the text without styling. `failure`: why there is none."""

    key: str
    nodes: tuple[Node, ...]
    failure: str = ""


_INTEGER = re.compile(r"[-+]?\d{1,15}")
_DOUBLED = re.compile(r"\\\\(?=[A-Za-z{},!])")
_MEMBERSHIP = re.compile(r"(?<=\S)\s*(?:\\[ ,;])*\(\s*[a-z]\s*\\in\s*\\mathbb\s*\{?[ZNQR]\}?[+*]?\s*\)\s*$")
_SIGNS = frozenset("= < > ≤ ≥ ≠ ≅ ≡ ∼ ≈ → ↔ ∪ ∩ ∖ ∈ ∉ ⊂ ⊆ + * ^ _ ± ∧ ∨ ¬ ⟂ ∥ | ! %".split(" "))
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:\\text\{)?\s*([ap])?\.?\s*(?:m\.?)?\}?", re.IGNORECASE)
_EUROPEAN = re.compile(r"([-+]?)(\d{1,3}(?:\.\d{3})+),(\d+)|([-+]?)(\d{1,3}(?:\.\d{3}){2,})()")
_DECIMAL_COMMA = re.compile(r"[-+]?0,\d+|[-+]?\d+,\d{1,2}|[-+]?\d+,\d{4,}")
_DOLLARS = re.compile(r"(?<!\\)\$")
_DISPLAY = re.compile(r"(?<!\\)\\[()\[\]]")
_MONEY = re.compile(r"[-+]?\$\s*-?[\d.]")
_STYLING = re.compile(
    r"\s+|\\[,;:! ]|\\(?:left|right|displaystyle|textstyle|limits|quad|qquad|mathrm|text|textbf|mathbf)(?![A-Za-z])|"
    r"(?<!\\)\$"
)
_APART = re.compile(r"(?<=\d)(?:\s|\\[,;: ])+(?=\d)")
_FRACTION = re.compile(r"\\[dtc]frac(?![A-Za-z])")
_LETTER = re.compile(
    r"(?:\\(?:text|textbf|mathrm|mathbf|textrm)\s*\{)?\s*\(?\s*([A-Ja-j])\s*(\)\s*[.:]?|[.:](?=\s|$|\}))\s*\}?\s*"
)
_ORDINAL = re.compile(r"(?<=\d)(?:\^?\{?\\(?:text|mathrm)\{(?:st|nd|rd|th)\}\}?|(?:\^?\{)?(?:st|nd|rd|th)\b\}?)")
_IN_BASE = re.compile(
    r"([0-9A-F]{1,60})\s*(?:\\text\s*\{)?\s*\(?(?:in\s)?base[- ~]?\s?\}?\s?"
    r"(\d{1,2}|two|three|four|five|six|seven|eight|nine|ten)\)?\}?"
)
_PUNCTUATION = re.compile(r"(?:(?<!\\)[.,;:]|\s)+$")
_OPTION = re.compile(r"^(?:\\text\s*\{)?\s*(?:option|choice|answer)\s+(?=\(?[A-J]\b)", re.IGNORECASE)
_WRAPPED = (("'", "'"), ("**", "**"), ("*", "*"), ("`", "`"), ("__", "__"), ('"', '"'), ("\\text{'", "'}"))


@lru_cache(maxsize=2048)
def read(text: str) -> Reading:
    """Every sensible reading of an answer, gold or given."""
    text = tidy(text)
    if _INTEGER.fullmatch(text):
        return Reading(text, (nodes.number(text),))
    key = styling_removed(text)
    if len(text) > MAX_LENGTH:
        return Reading(key, (), f"an answer of {len(text)} characters")
    special = [*_iso_date(text), *_clock(text), *_choice(text), *_european(text)]
    text = _MEMBERSHIP.sub("", surface.math(text))
    text = _IN_BASE.sub(r"\1_{\2}", _ORDINAL.sub("", text))
    try:
        tokens = tokenize(text)
        found = special + _readings(text, tokens)
    except (Unreadable, TooLarge, RecursionError) as error:
        if special:
            return Reading(key, tuple(special))
        return Reading(key, (), str(error) or "nested too deeply")
    return Reading(key, tuple(dict.fromkeys(found)))


def tidy(text: str) -> str:
    """Without the marks around it: $…$, \\(…\\), **…**, a full stop; money keeps its sign as \\$."""
    text = surface.plain(text).strip()
    for _ in range(3):
        text = text if text.rstrip().endswith("..") else _PUNCTUATION.sub("", text).strip()
        for opening, closing in _WRAPPED:
            if text.startswith(opening) and text.endswith(closing) and len(text) > len(opening) + len(closing):
                text = text[len(opening) : -len(closing)]
    if "\\\\" in text and "\\begin" not in text:
        text = _DOUBLED.sub(r"\\", text)
    if "$" in text:
        if text.count("$") % 2 and _MONEY.match(text):
            return text.replace("$", "\\$", 1)
        text = _DOLLARS.sub(" ", text)
    if "{:}" in text:
        text = text.replace("{:}", ":")
    if "\\(" in text or "\\[" in text or "\\)" in text:
        text = _DISPLAY.sub(" ", text)
    return text if text.endswith("..") else _PUNCTUATION.sub("", text).strip()


def styling_removed(text: str) -> str:
    text = _APART.sub("~", text)
    return _FRACTION.sub(r"\\frac", _STYLING.sub("", text[: 4 * MAX_LENGTH])) if len(text) < 4 * MAX_LENGTH else text


def _readings(text: str, tokens: list[Token]) -> list[Node]:
    wordy = [token for token in tokens if _is_word(token)]
    if not tokens:
        raise Unreadable("nothing to read")
    if not wordy:
        letters = all(token.kind == "word" for token in tokens)
        return [*_parsed(tokens), ("text", words.words_of(text))] if letters else _parsed(tokens)
    spoken = words.words_of(text)
    if not any(token.kind in ("num", "rep", "cmd") for token in tokens) or words.date(spoken):
        found = words.meaning(spoken)
        if found is not None:
            return [found]
    if (exception := _all_but(tokens)) is not None:
        return [exception]
    said: list[Node] = [("text", spoken)] if spoken and not any(_is_formula(token) for token in tokens) else []
    try:
        parts = phrase(tokens)
        found_nodes = _parsed(parts.tokens)
        if parts.bound:
            found_nodes = [("bound", parts.bound, node) for node in found_nodes]
        if parts.restricted:
            found_nodes = [("quant", "if", node) for node in found_nodes]
    except (Unreadable, TooLarge):
        if not said:
            raise
        return said
    unstyled = all(token.styled == "" for token in wordy) and not any(token.kind == "num" for token in tokens)
    return [*said, *found_nodes] if unstyled else found_nodes


def _is_word(token: Token) -> bool:
    """Letters that are no product of variables."""
    if token.kind == "sym":
        return token.styled == "text"
    return token.kind == "word" and (bool(token.styled) or not is_product(token.text))


def _is_formula(token: Token) -> bool:
    """Signs whose loss would change the meaning: such an answer is no mere text."""
    return token.kind == "cmd" or (token.kind == "op" and token.text in _SIGNS)


def _all_but(tokens: list[Token]) -> Node | None:
    """All real numbers except 0 and 1."""
    texts = [token.text.lower() for token in tokens]
    place = next((index for index, text in enumerate(texts) if text in ("except", "but", "other", "excluding")), 0)
    if not place or words.meaning(tuple(texts[:place])) != ("const", "ℝ"):
        return None
    rest = [token for token in tokens[place + 1 :] if token.text.lower() not in ("for", "than", "not", "x", "=", "≠")]
    found = parse(rest)
    return ("minus", ("const", "ℝ"), ("set", found[2] if found[0] == "list" else (found,)))


def _parsed(tokens: list[Token]) -> list[Node]:
    """The trees of the tokens: with thousands separators, as a list, and with a lone letter as a unit."""
    merged = merge_thousands(tokens)
    found = []
    try:
        found.append(parse(merged))
    except Unreadable:
        if not _loose(merged):
            raise
    if len(merged) != len(tokens):
        with contextlib.suppress(Unreadable):
            found.append(parse(tokens))
    if _loose(merged):
        try:
            found.append(parse(merged, loose_units=True))
        except Unreadable:
            if not found:
                raise
    return found


def _loose(tokens: list[Token]) -> bool:
    """Is there a lone letter, after a blank, behind a number: 25 m/s?"""
    return any(
        token.kind in ("sym", "word") and token.spaced and before.kind == "num" and len(token.text) <= 3
        for before, token in itertools.pairwise(tokens)
    ) and not any(token.text == "^" for token in tokens[:2])


def _iso_date(text: str) -> list[Node]:
    found = _ISO.fullmatch(text)
    return [("date", *(int(part) for part in found.groups()))] if found else []


def _clock(text: str) -> list[Node]:
    found = _TIME.fullmatch(text)
    if not found or int(found[1]) > 24 or int(found[2]) > 59:
        return []
    half = (found[4] or "").lower()
    time: Node = ("time", int(found[1]), int(found[2]), int(found[3] or 0), half)
    return [time]


def _choice(text: str) -> list[Node]:
    """C, (C), \\textbf{(D) } 25: a letter, alone or before a value."""
    bare = styling_removed(_OPTION.sub("", text)).strip("(){}")
    if len(bare) == 1 and "A" <= bare <= "J":
        return [("choice", bare, None)]
    found = _LETTER.match(_OPTION.sub("", text))
    if not found:
        return []
    rest = _OPTION.sub("", text)[found.end() :].strip()
    if not rest:
        return [("choice", found[1].upper(), None)]
    if rest[0] in "^_+-*/=!,)" or not (found[1].isupper() or ")" in found[2]):
        return []
    inner = read(rest)
    return [("choice", found[1].upper(), node) for node in inner.nodes] or [("choice", found[1].upper(), None)]


def _european(text: str) -> list[Node]:
    """1.234,56 and 3,14 as the continent writes them."""
    if "," not in text and text.count(".") < 2:
        return []
    found = _EUROPEAN.fullmatch(text)
    if found:
        sign, whole, digits = (found[1], found[2], found[3]) if found[2] else (found[4], found[5], "")
        return [nodes.number(sign + whole.replace(".", "") + ("." + digits if digits else ""))]
    if _DECIMAL_COMMA.fullmatch(text):
        return [nodes.number(text.replace(",", "."))]
    return []
