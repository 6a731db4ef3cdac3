"""The reference: what counts as the gold answer, and when it can judge nothing."""

from __future__ import annotations

from typing import Any

from plaudit_math import scope, words
from plaudit_math.extract import extract
from plaudit_math.policy import Policy
from plaudit_math.reading import Reading, read

MAX_TEXT = 20_000


def gold_texts(reference: Any) -> list[str]:
    """The answers that a reference accepts, one or several. A solution is reduced to its box or #### line."""
    if isinstance(reference, (list, tuple)):
        return [text for item in reference for text in gold_texts(item)]
    if reference is None:
        return []
    text = reference if isinstance(reference, str) else str(reference)
    if "\\boxed" in text or "\\fbox" in text:
        found = extract(text, Policy(scope="all"))
        return [found.text] if found.text and found.text.strip() else []
    if "####" in text:
        text = text[text.rfind("####") + 4 :]
    text = scope.answer_part(text) or text
    return [text.strip()] if text.strip() else []


def unable(gold: Reading) -> str:
    """Why a gold answer cannot judge an answer other than itself; "" if it can."""
    if not gold.nodes:
        return gold.failure or "nothing to read"
    only_words = all(node[0] == "text" for node in gold.nodes)
    if only_words and max(len(node[1]) for node in gold.nodes) > words.MAX_GOLD_WORDS:
        return "it is prose"
    return ""


def read_gold(text: str) -> Reading:
    return read(text) if len(text) <= MAX_TEXT else Reading("", (), f"a gold answer of {len(text)} characters")
