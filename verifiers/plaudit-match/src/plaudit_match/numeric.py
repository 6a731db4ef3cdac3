"""The `numeric` verifier."""

from __future__ import annotations

import re
import unicodedata
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Literal

from plaudit import Verdict, verifier

from plaudit_match.answer import Where, find_answer, references

_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+|(?<=\d)\.(?!\d))?(?:[eE][-+]?\d{1,3})?(?:/\d+)?%?(?![\w])"
)


def read_number(text: str) -> Fraction | None:
    """The number that `text` is: 1,234.5 · 1e-3 · 3/4 · 50% (as 1/2); None when it is anything else."""
    cleaned = unicodedata.normalize("NFKC", text).replace("−", "-").strip().strip("$€£¥").rstrip(".").strip()
    percent = cleaned.endswith("%")
    cleaned = cleaned.rstrip("%").replace(",", "").strip()
    if len(cleaned) > 400:
        return None
    above, slash, below = cleaned.partition("/")
    try:
        value = Fraction(Decimal(above)) / (Fraction(Decimal(below)) if slash else 1)
    except (InvalidOperation, ValueError, OverflowError, ZeroDivisionError):
        return None
    return value / 100 if percent else value


def numbers_in(text: str) -> list[Fraction]:
    """The numbers that stand in `text`, in order."""
    found = (match.group() for match in _NUMBER.finditer(unicodedata.normalize("NFKC", text).replace("−", "-")))
    return [value for value in map(read_number, found) if value is not None]


@verifier(executor="thread")
class Numeric:
    """1 when the number in the answer equals the reference within `tolerance` (relative) or `absolute`.

    `take`: "only" wants the answer to be a number and nothing else, "last" and "first" take that number in it. A
    reference that is no number abstains.
    """

    def __init__(
        self,
        *,
        answer_in: Where = "all",
        take: Literal["only", "last", "first"] = "last",
        tolerance: float = 0.0,
        absolute: float = 0.0,
    ) -> None:
        self._where, self._take = answer_in, take
        self._tolerance, self._absolute = Fraction(tolerance), Fraction(absolute)

    def verify(self, completion: Any, reference: Any) -> Verdict:
        wanted = [read_number(text) for text in references(reference) or []]
        if not wanted or None in wanted:
            return Verdict.abstain(f"the reference is not a number: {reference!r}"[:200])
        answer = find_answer(completion, self._where)
        value = None if answer is None else self._taken(answer)
        if value is None:
            return Verdict.wrong(f"no number found in {self._where}")
        shown = str(value) if len(str(value)) < 40 else f"{float(value):.12g}"
        if any(self._equal(value, one) for one in wanted if one is not None):
            return Verdict.right(extracted=shown)
        return Verdict.wrong("another number than the reference", extracted=shown)

    def _taken(self, answer: str) -> Fraction | None:
        if self._take == "only":
            return read_number(answer)
        found = numbers_in(answer)
        return found[0 if self._take == "first" else -1] if found else None

    def _equal(self, value: Fraction, wanted: Fraction) -> bool:
        return abs(value - wanted) <= max(self._absolute, self._tolerance * abs(wanted))
