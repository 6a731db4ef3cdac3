"""Counting words, sentences and paragraphs, in scripts with blanks and without."""

from __future__ import annotations

import re

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+(?:['’\-][^\W{_CJK}]+)*")
_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof sr jr st vs etc e.g i.e cf al fig no vol inc ltd co corp dept est gen gov hon lt col sgt capt "
    "rev jan feb mar apr jun jul aug sep sept oct nov dec a.m p.m u.s u.k u.n ph.d approx".split()
)
_ENDING = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s|$)|[。！？｡]+[」』”’）]*")
_CODE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def words(text: str) -> list[str]:
    """The words of `text`: runs of letters and digits (an inner apostrophe or hyphen joins), each CJK character."""
    return _WORD.findall(text)


def has_cjk(text: str) -> bool:
    return re.search(f"[{_CJK}]", text) is not None


def sentences(text: str) -> list[str]:
    """The sentences of `text`, each with a word in it. Abbreviations, initials and decimal points end none."""
    found, start = [], 0
    for match in _ENDING.finditer(text):
        if match.group().startswith(".") and not match.group().startswith("..") and _abbreviated(text, match.start()):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if words(sentence)]


def _abbreviated(text: str, stop: int) -> bool:
    """Whether the word before the full stop at `stop` is an abbreviation or an initial, and more text follows."""
    word = re.search(r"[\w.]*$", text[max(0, stop - 20) : stop])
    written = word.group() if word else ""
    initial = len(written) == 1 and written.isupper() and written not in ("I", "A")
    return bool(text[stop + 1 :].strip()) and (written.lower() in _ABBREVIATIONS or initial or _list_number(text, stop))


def _list_number(text: str, stop: int) -> bool:
    """Whether the stop belongs to the "1." that opens a line of a list."""
    return re.fullmatch(r"\s*\d{1,3}", text[text.rfind("\n", 0, stop) + 1 : stop]) is not None


def paragraphs(text: str) -> list[str]:
    """The blocks of `text` between blank lines, the blank ones left out."""
    return [block.strip() for block in re.split(r"\n\s*\n", text) if block.strip()]


def without_code(text: str) -> str:
    """The text without its fenced code blocks."""
    return _CODE.sub("", text)


def without_markup(text: str) -> str:
    """The text without leading and trailing Markdown marks and quotes."""
    return text.strip().lstrip("#>*_~`\"'“‘- \t").rstrip("*_~`\"'”’ \t")
