"""Instructions on what the text holds, how it starts and ends, and its punctuation."""

from __future__ import annotations

import re

from plaudit_ifeval.checks import CannotJudge, check, compare

_PLACEHOLDER = re.compile(r"(?<![\w\])])\[(?!\^)([^\[\]\n]{1,200})\](?!\()")
_QUOTES = {'"': '"', "“": "”", "„": "“”", "«": "»", "「": "」", "『": "』", "＂": "＂"}
_COMMAS = ",，、،﹐﹑､"
_SPACES = re.compile(r"\s+")


@check("detectable_content:number_placeholders")
def number_placeholders(text: str, *, num_placeholders: int) -> bool:
    """At least so many `[placeholders]`; links, indices, footnotes and check boxes are none."""
    found = [inside.strip() for inside in _PLACEHOLDER.findall(text)]
    return compare(sum(1 for inside in found if inside and inside not in "xX"), "at least", num_placeholders)


@check("detectable_content:postscript")
def postscript(text: str, *, postscript_marker: str = "P.S.") -> bool:
    """The postscript's marker occurs; P.S. and P.P.S also with blanks and in lower case."""
    letters = re.sub(r"[^A-Za-z]", "", postscript_marker).upper()
    if letters in ("PS", "PPS"):
        dotted = r"\s?".join(rf"{letter}\." for letter in letters[:-1]) + r"\s?" + letters[-1] + r"\.?"
        before = r"(?<!\w)" if letters == "PPS" else r"(?<!\w)(?<!p\.)(?<!p\. )"
        return re.search(rf"{before}{dotted}(?!\w)", text, re.IGNORECASE) is not None
    return postscript_marker.strip().casefold() in text.casefold()


@check("combination:two_responses")
def two_responses(text: str) -> bool:
    """Two different, non-empty parts parted by `******`; a separator at either end is free."""
    parts = [part.strip() for part in re.split(r"(?<!\*)\*{6}(?!\*)", text)]
    parts = parts[1:] if parts and not parts[0] else parts
    parts = parts[:-1] if parts and not parts[-1] else parts
    return len(parts) == 2 and all(parts) and _folded(parts[0]) != _folded(parts[1])


@check("combination:repeat_prompt")
def repeat_prompt(text: str, *, prompt_to_repeat: str) -> bool:
    """The text begins with the request, word for word, up to case and blanks."""
    if not prompt_to_repeat.strip():
        raise CannotJudge("prompt_to_repeat is empty")
    return _folded(text).startswith(_folded(prompt_to_repeat))


@check("startend:end_checker")
def end_checker(text: str, *, end_phrase: str) -> bool:
    """The text ends with the phrase, in any case; quotes and emphasis around it are free."""
    wanted = _folded(end_phrase).strip("\"'*_ ")
    if not wanted:
        raise CannotJudge("end_phrase is empty")
    return _folded(text).rstrip("\"'”’*_ ").endswith(wanted)


@check("startend:quotation")
def quotation(text: str) -> bool:
    """The whole text stands in double quotation marks, straight or typographic, with something inside."""
    stripped = text.strip()
    inside = stripped[1:-1].strip()
    return len(stripped) > 2 and stripped[-1] in _QUOTES.get(stripped[0], "") and bool(inside)


@check("punctuation:no_comma")
def no_comma(text: str) -> bool:
    """No comma of any script, in a text that says something."""
    return bool(text.strip()) and not any(comma in text for comma in _COMMAS)


def _folded(text: str) -> str:
    return _SPACES.sub(" ", text).strip().casefold()
