"""Whether a completion is written in the language that was asked for."""

from __future__ import annotations

from typing import Any

from plaudit import completion_text, reward

MIN_LETTERS = 12
"""Detection on fewer letters than this is a coin toss, so the reward abstains."""


def language_probability(text: str, language: str) -> float | None:
    """How sure the detector is that `text` is in `language` (ISO 639-1, `zh` for either script); None if too short.

    Seeded, so that one text always gets one answer.
    """
    if sum(char.isalpha() for char in text) < MIN_LETTERS:
        return None
    from langdetect import DetectorFactory, LangDetectException, detect_langs

    DetectorFactory.seed = 0
    try:
        found = detect_langs(text)
    except LangDetectException:
        return None
    return float(sum(guess.prob for guess in found if guess.lang == language or guess.lang.split("-")[0] == language))


@reward(deterministic=True)
def language(completions: list[Any], *, language: str = "en", **_: Any) -> list[float | None]:
    """The probability that each completion is in `language`; None for text too short to tell."""
    return [language_probability(completion_text(completion), language) for completion in completions]
