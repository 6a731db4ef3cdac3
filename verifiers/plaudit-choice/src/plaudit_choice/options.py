"""The options of a question, and which of them its reference calls right."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_ARTICLES = re.compile(r"^(?:the|an?)\s+", re.IGNORECASE)


@dataclass(frozen=True)
class Options:
    """`texts`: option text by label ("" where only labels are known); `right`: the labels that answer the question."""

    texts: Mapping[str, str]
    right: frozenset[str]

    def label(self, written: str, *, fold_case: bool = True) -> str | None:
        """The label that `written` names, or None. Case folds where no two labels differ by case alone."""
        if written in self.texts:
            return written
        if not fold_case:
            return None
        matches = [label for label in self.texts if label.casefold() == written.casefold()]
        return matches[0] if len(matches) == 1 else None

    def by_text(self, written: str, *, without_unit: bool = False) -> str | None:
        """The one label whose text `written` is, up to case, spacing, an article and a final full stop."""
        wanted = text_key(written)
        if not wanted:
            return None
        matches = [label for label, text in self.texts.items() if text and text_key(text) == wanted]
        if not matches and without_unit:
            matches = [label for label, text in self.texts.items() if text and _leading_number(text) == wanted]
        return matches[0] if len(matches) == 1 else None


def read_options(reference: Any, choices: Any, labels: str) -> Options | None:
    """Options from `{"choices", "answer"}`, or a bare answer with a `choices` column or `labels`; None if unusable.

    The answer is a label, a list of labels, an option's text, or (where no label is a number) a 0-based index.
    """
    answer = reference
    if isinstance(reference, Mapping):
        answer, choices = reference.get("answer"), reference.get("choices", choices)
    texts = _texts(choices, labels)
    options = Options(texts, frozenset())
    answers = answer if isinstance(answer, list | tuple | set | frozenset) else [answer]
    right = [_resolve(options, one) for one in answers]
    if not right or None in right:
        return None
    return Options(texts, frozenset(label for label in right if label is not None))


def _texts(choices: Any, labels: str) -> dict[str, str]:
    if isinstance(choices, Mapping) and {"label", "text"} <= set(choices):  # the column layout of ARC and OpenBookQA
        return {str(label): str(text) for label, text in zip(choices["label"], choices["text"], strict=False)}
    if isinstance(choices, Mapping):
        return {str(label): str(text) for label, text in choices.items()}
    if isinstance(choices, Sequence) and not isinstance(choices, str):
        return {label: str(text) for label, text in zip(string.ascii_uppercase, choices, strict=False)}
    return dict.fromkeys(labels, "")


def _resolve(options: Options, answer: Any) -> str | None:
    if isinstance(answer, bool) or answer is None:
        return None
    if isinstance(answer, int):
        names = list(options.texts)
        if str(answer) in options.texts:
            return str(answer)
        return names[answer] if 0 <= answer < len(names) and not any(name.isdigit() for name in names) else None
    written = str(answer).strip()
    return options.label(written.strip("()[]. ")) or options.by_text(written)


def text_key(text: str) -> str:
    """The text without what does not matter to a reader: case, spacing, an article, dollar signs, a final full stop."""
    folded = unicodedata.normalize("NFKC", text).replace("$", "").casefold()
    return _ARTICLES.sub("", " ".join(folded.split()).rstrip(".").strip())


def _leading_number(text: str) -> str:
    match = re.match(r"\s*([-+]?[\d.,]+)\s*[^\d\s]*\s*$", text)
    return text_key(match.group(1)) if match else ""
