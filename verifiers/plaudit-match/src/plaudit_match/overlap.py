"""The `f1` verifier."""

from __future__ import annotations

from collections import Counter
from typing import Any

from plaudit import Verdict, verifier

from plaudit_match.answer import Where, find_answer, normalized, references


def token_f1(answer: str, reference: str) -> float:
    """The harmonic mean of precision and recall over words, lower-cased, without punctuation and articles.

    Source: the answer overlap of SQuAD, arXiv 1606.05250. Two texts without a word agree only with each other.
    """
    ours, theirs = (_words(text) for text in (answer, reference))
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


def _words(text: str) -> list[str]:
    return normalized(text, case=False, punctuation=False, articles=False).split()


@verifier(executor="thread")
class TokenF1:
    """The best word F1 of the answer against the reference (or any of a list); below `at_least` it scores 0."""

    def __init__(self, *, answer_in: Where = "all", at_least: float = 0.0) -> None:
        self._where, self._at_least = answer_in, at_least

    def verify(self, completion: Any, reference: Any) -> Verdict:
        accepted = references(reference)
        if accepted is None:
            return Verdict.abstain("the row has no reference")
        answer = find_answer(completion, self._where)
        if answer is None:
            return Verdict.wrong(f"no answer found in {self._where}")
        best = max(token_f1(answer, text) for text in accepted)
        return Verdict(best if best >= self._at_least else 0.0, extracted=answer[:1000], metrics={"f1": best})
