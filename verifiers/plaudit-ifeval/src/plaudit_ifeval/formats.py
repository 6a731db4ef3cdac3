"""Instructions on the form of the text: detectable_format:* and change_case:*."""

from __future__ import annotations

import re
import unicodedata

from plaudit import BadJson, parse_json
from plaudit_json import find_json

from plaudit_ifeval.checks import CannotJudge, check, compare
from plaudit_ifeval.words import without_code, words

_BULLET = re.compile(r"^[ \t]*[*\-+][ \t]+(?![*\-_ \t]*$)\S", re.MULTILINE)
_HIGHLIGHT = re.compile(r"(?<![\w*\\])(\*{1,3})(?=[^\s*])([^\n*]*?[^\s*])\1(?![\w*])")
_TITLE = re.compile(r"^[ \t#*_]*<<([^\n<>]+)>>[ \t*_]*$", re.MULTILINE)
_ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@check("detectable_format:number_bullet_lists")
def number_bullet_lists(text: str, *, num_bullets: int) -> bool:
    """Exactly so many bullets (`* `, `- ` or `+ `) outside code; rules and empty bullets are none."""
    return compare(len(_BULLET.findall(without_code(text))), "exactly", num_bullets)


@check("detectable_format:constrained_response")
def constrained_response(text: str) -> bool:
    """Exactly one of the three allowed answers occurs."""
    return sum(answer.casefold() in text.casefold() for answer in _ANSWERS) == 1


@check("detectable_format:number_highlighted_sections")
def number_highlighted_sections(text: str, *, num_highlights: int) -> bool:
    """At least so many `*highlighted*` or `**highlighted**` parts, with no blank inside the marks."""
    return compare(len(_HIGHLIGHT.findall(without_code(text))), "at least", num_highlights)


@check("detectable_format:multiple_sections")
def multiple_sections(text: str, *, section_spliter: str, num_sections: int) -> bool:
    """At least so many lines open a section: the splitter and a number, each number once."""
    if not section_spliter.strip():
        raise CannotJudge("section_spliter is empty")
    splitter = re.escape(section_spliter.strip())
    opened = re.findall(rf"^[ \t#*_>]*{splitter}[ \t]*(\d+|[IVXLC]+)\b", text, re.MULTILINE | re.IGNORECASE)
    return compare(len({number.upper() for number in opened}), "at least", num_sections)


@check("detectable_format:json_format")
def json_format(text: str) -> bool:
    """The whole text, or its one block, is a JSON value."""
    source = find_json(text)
    try:
        parse_json(source if source is not None else "")
    except BadJson:
        return False
    return True


@check("detectable_format:title")
def title(text: str) -> bool:
    """A `<<title>>` that is not blank stands on a line of its own."""
    return any(inside.strip() for inside in _TITLE.findall(text))


@check("change_case:capital_word_frequency")
def capital_word_frequency(text: str, *, capital_frequency: int, capital_relation: str = "at least") -> bool:
    """So many words in capitals only."""
    return compare(sum(word.isupper() for word in words(text)), capital_relation, capital_frequency)


@check("change_case:english_capital")
def english_capital(text: str) -> bool:
    """Latin letters, at least one, all of them capitals."""
    return _latin(text) and text.isupper()


@check("change_case:english_lowercase")
def english_lowercase(text: str) -> bool:
    """Latin letters, at least one, none of them a capital."""
    return _latin(text) and text.islower()


def _latin(text: str) -> bool:
    letters = [char for char in text if char.isalpha()]
    return bool(letters) and all("LATIN" in unicodedata.name(char, "") for char in letters)
