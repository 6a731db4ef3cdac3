"""Where the answer stands in a completion, and the forms in which two texts count as equal."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable
from typing import Any, Literal

from plaudit import UsageError, completion_text

Where = Literal["all", "answer_tag", "last_line", "boxed"]
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def find_answer(completion: Any, where: Where, think_end: str = "</think>") -> str | None:
    """The part of the text behind `think_end` that answers: all of it, or the last tag, line or box; None if absent."""
    text = completion_text(completion).rpartition(think_end)[2].strip()
    if where == "all":
        return text
    if where == "last_line":
        return text.rsplit("\n", 1)[-1].strip() or None
    if where == "answer_tag":
        return _between(text, "<answer>", "</answer>")
    if where == "boxed":
        return _last_box(text)
    raise UsageError(f"answer_in must be one of all, answer_tag, last_line, boxed; got {where!r}")


def normalized(text: str, *, case: bool, punctuation: bool, articles: bool) -> str:
    """NFKC text with blanks folded; each of `case`, `punctuation` and `articles` is kept only where true."""
    text = unicodedata.normalize("NFKC", text)
    text = text if case else text.casefold()
    text = text if punctuation else text.translate(_PUNCTUATION)
    text = text if articles else _ARTICLES.sub(" ", text)
    return " ".join(text.split())


def references(reference: Any) -> list[str] | None:
    """The accepted answers as text: one, or several where the reference is a list; None where there is none."""
    several: Iterable[Any] = reference if isinstance(reference, list | tuple | set) else [reference]
    texts = [str(one) for one in several if one is not None and not isinstance(one, dict)]
    return texts or None


def _between(text: str, opening: str, closing: str) -> str | None:
    start = text.rfind(opening)
    end = text.find(closing, start)
    return text[start + len(opening) : end].strip() if start >= 0 and end >= 0 else None


def _last_box(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    depth = 0
    for position in range(start + len("\\boxed"), len(text)) if start >= 0 else ():
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[start + len("\\boxed{") : position].strip()
    return None
