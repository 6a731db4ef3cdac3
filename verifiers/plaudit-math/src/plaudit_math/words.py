"""Answers in words: their normal form, words that mean mathematics, numbers in words, dates."""

from __future__ import annotations

import re
from fractions import Fraction

from plaudit_math.naming import names, numbered
from plaudit_math.nodes import INFINITY, Node, negate
from plaudit_math.surface import plain

MAX_GOLD_WORDS = 6
"""A longer gold text is prose: it can be met word for word, but it cannot judge another answer."""

_COMMAND = re.compile(
    r"\\(?:text\w*|mathrm|mathbf|mathit|mbox|operatorname|quad|left|right|displaystyle)\b\*?|\\[,;:! ]"
)
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?|[-+]?\d+(?:\.\d+)?")
_ARTICLES = frozenset(["the", "a", "an"])
_ORDERED = names("to than over then of before after not beats into from by but versus vs greater less if")
_EMPTY_SET: Node = ("const", "∅")
_MEANINGS: dict[str, Node] = {
    **dict.fromkeys(("no solution", "no solutions", "no real solution", "no real solutions", "no real roots",
                     "empty set",
                     "no real root", "has no solution", "has no solutions", "there is no solution",
                     "there are no solutions", "no such number", "无解", "空集", "no roots", "emptyset", "null set",
                     "solution set is empty", "no solution exists", "no solutions exist"), _EMPTY_SET),
    **dict.fromkeys(("infinity", "positive infinity", "plus infinity", "+ infinity", "无穷大", "正无穷", "无穷"),
                    INFINITY),
    **dict.fromkeys(("negative infinity", "minus infinity", "- infinity", "负无穷"), negate(INFINITY)),
    **dict.fromkeys(("all real numbers", "all reals", "any real number", "every real number", "all real number",
                     "real numbers",
                     "set of all real numbers", "set of real numbers", "reals", "全体实数", "所有实数", "任意实数",
                     "all real",
                     "all real values", "all real x", "all x", "all values of x", "any real", "x is any real number",
                     "x is all real numbers", "all real values of x"), ("const", "ℝ")),
    **dict.fromkeys(("does not exist", "dne", "doesn't exist", "limit does not exist", "不存在", "d n e",
                     "do not exist",
                     "nonexistent", "non existent"), ("text", ("does", "not", "exist"))),
    **dict.fromkeys(("undefined", "not defined", "is undefined", "it is undefined", "没有意义", "未定义"),
                    ("text", ("undefined",))),
    **dict.fromkeys(("infinitely many", "infinitely many solutions", "infinite solutions",
                     "infinite number of solutions",
                     "infinite many solutions", "无数个", "无穷多"), ("text", ("infinitely", "many"))),
}  # fmt: skip

_UNITS = numbered(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = {
    name: 10 * (place + 2) for name, place in numbered("twenty thirty forty fifty sixty seventy eighty ninety").items()
}
SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9, "trillion": 12, "万": 4, "亿": 8, "百万": 6}
_PARTS = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7,
          "eighth": 8,
          "ninth": 9, "tenth": 10, "hundredth": 100, "twelfth": 12}  # fmt: skip
_NUMBER_WORDS = frozenset([*_UNITS, *_TENS, *SCALES, *_PARTS, "dozen", "more", "times", "percent"])
_CHINESE = dict(zip("零一二三四五六七八九", range(10), strict=True)) | {"两": 2, "〇": 0}
_MONTHS = numbered("january february march april may june july august september october november december")
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")


def words_of(text: str) -> tuple[str, ...]:
    """Lower-case words without articles, styling and punctuation."""
    text = _COMMAND.sub(" ", plain(text)).casefold()
    return tuple(word for word in _WORD.findall(text) if word not in _ARTICLES)


def meaning(words: tuple[str, ...]) -> Node | None:
    """What a phrase of words stands for: ∅, ∞, ℝ, a number, a date; None if it is just words."""
    if not words or len(words) > 12:
        return None
    found = _MEANINGS.get(" ".join(words))
    if found is not None:
        return found
    number = number_in_words(words)
    if number is None and 2 <= len(words) <= 4 and words[-1] not in _NUMBER_WORDS and words[-1] not in _ORDERED:
        number = number_in_words(words[:-1])
    if number is not None:
        return ("num", number)
    return date(words)


def number_in_words(words: tuple[str, ...]) -> Fraction | None:
    """one half, two and three quarters, minus twenty-one, one hundred and five, 十二."""
    if words[0] in ("minus", "negative"):
        rest = number_in_words(words[1:]) if len(words) > 1 else None
        return None if rest is None else -rest
    if len(words) == 1 and all(character in _CHINESE or character in "十百" for character in words[0]):
        return _chinese(words[0])
    if words == ("dozen",):
        return Fraction(12)
    if "and" in words and words[-1].rstrip("s") in _PARTS:
        place = len(words) - 1 - words[::-1].index("and")
        whole, part = _whole(words[:place]), _part(tuple(word for word in words[place + 1 :]))
        return None if whole is None or part is None else whole + part
    part = _part(words)
    if part is not None:
        return part
    whole = _whole(words)
    return None if whole is None else Fraction(whole)


def _part(words: tuple[str, ...]) -> Fraction | None:
    below = _PARTS.get(words[-1]) or _PARTS.get(words[-1].rstrip("s"))
    if below is None:
        return None
    if len(words) == 1:
        return Fraction(1, below) if words[0] in ("half", "quarter") else None
    top = _whole(words[:-1])
    return None if top is None else Fraction(top, below)


def _whole(words: tuple[str, ...]) -> int | None:
    total = current = 0
    seen = False
    for word in words:
        if word == "and" and seen:
            continue
        if word in _UNITS:
            current += _UNITS[word]
        elif word in _TENS:
            current += _TENS[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in SCALES and word.isascii():
            total += (current or 1) * 10 ** SCALES[word]
            current = 0
        else:
            return None
        seen = True
    return total + current if seen else None


def _chinese(text: str) -> Fraction | None:
    total = current = 0
    for character in text:
        if character in _CHINESE:
            current = current * 10 + _CHINESE[character]
        else:
            total += (current or 1) * (10 if character == "十" else 100)
            current = 0
    return Fraction(total + current) if len(text) < 8 else None


def date(words: tuple[str, ...]) -> Node | None:
    """March 5, 2020 · 5 March · 2020 03 05 (from 2020-03-05)."""
    words = tuple(_ORDINAL.sub("", word) for word in words if word != "of")
    month = next((place + 1 for word in words for name, place in _MONTHS.items() if _is_month(word, name)), None)
    numbers = [word.lstrip("-") for word in words if word.lstrip("-").isdigit()]
    if month is None:
        if len(words) == 3 and len(numbers) == 3 and len(numbers[0]) == 4 and len(numbers[1]) == len(numbers[2]) == 2:
            return ("date", int(numbers[0]), int(numbers[1]), int(numbers[2]))
        return None
    if len(words) != len(numbers) + 1 or not 1 <= len(numbers) <= 2:
        return None
    year = next((int(number) for number in numbers if len(number) == 4), None)
    day = next((int(number) for number in numbers if len(number) <= 2), None)
    return ("date", year, month, day) if day is not None and day <= 31 else None


def _is_month(word: str, name: str) -> bool:
    return word == name or (len(word) >= 3 and word.rstrip(".") == name[:3]) or word == "sept" == name[:4]


def same_words(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Equal words; in any order where none of them makes the order matter (isosceles right = right isosceles)."""
    if left == right:
        return True
    if len(left) < 2 or sorted(left) != sorted(right) or any(word in _ORDERED for word in left):
        return "".join(left) == "".join(right)
    return not any(word.isdigit() for word in left)
