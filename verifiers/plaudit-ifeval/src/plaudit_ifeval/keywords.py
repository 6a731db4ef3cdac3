"""Instructions on which words and letters occur: keywords:*."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from plaudit_ifeval.checks import CannotJudge, check, compare
from plaudit_ifeval.words import has_cjk


def occurrences(keyword: str, text: str) -> int:
    """How often `keyword` occurs in `text` as a word or phrase, in any case; "ear" does not occur in "early"."""
    keyword, text = (unicodedata.normalize("NFKC", part).casefold() for part in (keyword.strip(), text))
    if not keyword:
        raise CannotJudge("a keyword is empty")
    pattern = r"\s+".join(re.escape(part) for part in keyword.split())
    if not has_cjk(keyword):
        before = r"(?<!\w)" if re.match(r"\w", keyword) else ""
        after = r"(?!\w)" if re.match(r"\w", keyword[-1]) else ""
        pattern = f"{before}{pattern}{after}"
    return len(re.findall(pattern, text))


def _list_of(value: Sequence[str] | str | None, name: str) -> list[str]:
    found = [value] if isinstance(value, str) else list(value or [])
    if not found:
        raise CannotJudge(f"{name} is empty")
    return [str(one) for one in found]


@check("keywords:existence")
def existence(text: str, *, keywords: Sequence[str]) -> bool:
    """All keywords occur."""
    return all(occurrences(keyword, text) for keyword in _list_of(keywords, "keywords"))


@check("keywords:frequency")
def frequency(text: str, *, keyword: str, frequency: int, relation: str = "at least") -> bool:
    """The keyword occurs so often."""
    return compare(occurrences(keyword, text), relation, frequency)


@check("keywords:forbidden_words")
def forbidden_words(text: str, *, forbidden_words: Sequence[str]) -> bool:
    """No forbidden word occurs."""
    return not any(occurrences(word, text) for word in _list_of(forbidden_words, "forbidden_words"))


@check("keywords:letter_frequency")
def letter_frequency(text: str, *, letter: str, let_frequency: int, let_relation: str = "at least") -> bool:
    """One character, a letter in either case or a sign, occurs so often."""
    if len(letter) != 1:
        raise CannotJudge(f"letter must be one character, got {letter!r}")
    return compare(text.casefold().count(letter.casefold()), let_relation, let_frequency)
