"""Words around the mathematics of an answer: bounds, hedged precision, labels, qualifiers."""

from __future__ import annotations

from typing import NamedTuple

from plaudit_math.naming import names
from plaudit_math.tokens import Token
from plaudit_math.words import SCALES

_BEFORE: dict[tuple[str, ...], str] = {
    ("at", "least"): "≥", ("at", "most"): "≤", ("more", "than"): ">", ("less", "than"): "<", ("greater", "than"): ">",
    ("fewer", "than"): "<", ("no", "more", "than"): "≤", ("no", "less", "than"): "≥", ("no", "fewer", "than"): "≥",
    ("not", "more", "than"): "≤", ("not", "less", "than"): "≥", ("up", "to"): "≤", ("above",): ">", ("below",): "<",
    ("under",): "<", ("over",): ">", ("larger", "than"): ">", ("smaller", "than"): "<", ("bigger", "than"): ">",
    ("a", "minimum", "of"): "≥", ("a", "maximum", "of"): "≤", ("至少",): "≥", ("至多",): "≤", ("不少于",): "≥",
    ("不超过",): "≤",
    ("大于",): ">", ("小于",): "<", ("超过",): ">", ("不大于",): "≤", ("不小于",): "≥", ("最多",): "≤", ("最少",): "≥",
}  # fmt: skip
_AFTER: dict[tuple[str, ...], str] = {
    ("or", "more"): "≥", ("or", "less"): "≤", ("or", "fewer"): "≤", ("or", "greater"): "≥", ("or", "above"): "≥",
    ("or", "higher"): "≥", ("and", "above"): "≥", ("or", "below"): "≤", ("or", "lower"): "≤", ("and", "below"): "≤",
    ("or", "over"): "≥", ("or", "under"): "≤", ("or", "larger"): "≥", ("or", "smaller"): "≤", ("and", "up"): "≥",
    ("以上",): "≥", ("以下",): "≤", ("at", "least"): "≥", ("at", "most"): "≤", ("or", "so"): "≈", ("and", "more"): "≥",
}  # fmt: skip
_FILLER = names(
    "about approximately approx roughly around exactly precisely nearly almost is are equals be only just "
    "therefore thus so hence also then we get have the answer final value result solution solutions answers both "
    "约 大约 约为 是 为 等于"
)
_QUALIFIERS = names(
    "for where with when if unless whenever such given assuming because since which provided while who that after"
)
_CONDITIONAL = frozenset(["if", "unless", "whenever", "provided"])
_RESTRICTING = frozenset(["for", "when", "if", "whenever", "provided", "with"])
_MONEY = names("usd eur gbp cny rmb rs inr jpy")
_ORDER_SIGNS = frozenset(["<", ">", "≤", "≥", "="])


class Phrase(NamedTuple):
    """`tokens`: the mathematics. `bound`: ≥ of "at least 40". `restricted`: only under a condition ("for x > 0")."""

    tokens: list[Token]
    bound: str = ""
    restricted: bool = False


def phrase(tokens: list[Token]) -> Phrase:
    """Split off what words say about the mathematics. Tokens without words come back as they are."""
    tokens = _scaled(tokens)
    for place, token in enumerate(tokens):
        if token.text == "to" and _between_numbers(tokens, place):
            tokens = [*tokens[:place], token._replace(kind="op", text=":"), *tokens[place + 1 :]]
    tokens = _without_label(tokens)
    tokens, restricted = _without_qualifier(tokens)
    texts = [token.text.lower() for token in tokens]
    while texts and (texts[0] in _FILLER or (texts[0] == "=" and len(texts) > 1)) and tokens[0].kind in ("word", "op"):
        tokens, texts = tokens[1:], texts[1:]
    if len(tokens) > 1 and tokens[0].kind == "word" and tokens[1].kind == "num" and texts[0] in _MONEY:
        tokens = [*tokens[1:], tokens[0]]
    for words, sign in _BEFORE.items():
        if tuple(texts[: len(words)]) == words and len(texts) > len(words):
            return Phrase(tokens[len(words) :], sign, restricted)
    for words, sign in _AFTER.items():
        if tuple(texts[-len(words) :]) == words and len(texts) > len(words):
            return Phrase(tokens[: -len(words)], "" if sign == "≈" else sign, restricted)
    return Phrase(tokens, "", restricted)


def _between_numbers(tokens: list[Token], place: int) -> bool:
    """3 to 2 is a ratio."""
    return 0 < place < len(tokens) - 1 and tokens[place - 1].kind == tokens[place + 1].kind == "num"


def _scaled(tokens: list[Token]) -> list[Token]:
    """3 million is the literal 3e6."""
    if not any(token.text in SCALES for token in tokens):
        return tokens
    scaled: list[Token] = []
    for token in tokens:
        before = scaled[-1] if scaled else None
        if token.text in SCALES and before is not None and before.kind == "num" and "e" not in before.text.lower():
            scaled[-1] = before._replace(text=f"{before.text}e{SCALES[token.text]}")
        else:
            scaled.append(token)
    return scaled


def _without_label(tokens: list[Token]) -> list[Token]:
    """Area = 20, Sum: 20, \\text{Probability} = 1/2: the words before the sign are a label."""
    for place, token in enumerate(tokens):
        if token.kind == "op" and token.text in ("=", ":", "≈"):
            head = tokens[:place]
            wordy = any(part.kind == "word" and (part.styled == "text" or len(part.text) > 3) for part in head)
            plain_head = all(part.kind in ("word", "sym") or part.text in ("'", "-", "(", ")", "and") for part in head)
            if wordy and plain_head and place + 1 < len(tokens):
                return tokens[place + 1 :]
            return tokens
        if token.kind not in ("word", "sym", "op"):
            return tokens
    return tokens


def _without_qualifier(tokens: list[Token]) -> tuple[list[Token], bool]:
    depth = 0
    for place, token in enumerate(tokens):
        if token.kind == "op" and token.text in ("(", "[", "{", "{set"):
            depth += 1
        elif token.kind == "op" and token.text in (")", "]", "}", "}set"):
            depth -= 1
        if depth == 0 and place and token.kind == "word" and token.text.lower() in _QUALIFIERS:
            head = tokens[:place]
            if not any(part.kind in ("num", "rep", "sym", "const", "cmd", "fn") for part in head):
                return tokens, False
            while head and head[-1].text in (",", ";", "(", "and"):
                head = head[:-1]
            tail = {part.text for part in tokens[place:]}
            word = token.text.lower()
            restricts = word in _CONDITIONAL or (word in _RESTRICTING and bool(tail & _ORDER_SIGNS))
            return head, restricts
    return tokens, False
