"""The instruction on the language of the text: language:response_language."""

from __future__ import annotations

import unicodedata

from plaudit_ifeval.checks import CannotJudge, check

_SCRIPTS = {
    "ko": ("HANGUL",),
    "ja": ("HIRAGANA", "KATAKANA", "CJK"),
    "zh": ("CJK",),
    "th": ("THAI",),
    "bn": ("BENGALI",),
    "gu": ("GUJARATI",),
    "kn": ("KANNADA",),
    "te": ("TELUGU",),
    "ta": ("TAMIL",),
    "pa": ("GURMUKHI",),
    "ml": ("MALAYALAM",),
    "el": ("GREEK",),
    "he": ("HEBREW",),
}
"""Languages that their script alone tells; the detector is needed for the others."""


@check("language:response_language")
def response_language(text: str, *, language: str) -> bool:
    """The text is in `language` (ISO 639-1; any Chinese for zh). Text in which nothing can be told is not."""
    wanted = language.lower().split("-")[0]
    if not wanted.isalpha():
        raise CannotJudge(f"language must be an ISO 639-1 code, got {language!r}")
    names = [unicodedata.name(char, "") for char in text if char.isalpha()]
    if not names:
        return False
    if wanted in _SCRIPTS:
        share = sum(name.startswith(_SCRIPTS[wanted]) for name in names) / len(names)
        kana = any(name.startswith(("HIRAGANA", "KATAKANA")) for name in names)
        return share >= 0.5 and kana == (wanted == "ja") if wanted in ("ja", "zh") else share >= 0.5
    return _detected(text) == wanted


def _detected(text: str) -> str | None:
    """The detector's first guess, seeded so that one text always gets one answer."""
    from langdetect import DetectorFactory, LangDetectException, detect

    DetectorFactory.seed = 0
    try:
        return str(detect(text)).split("-")[0]
    except LangDetectException:
        return None
