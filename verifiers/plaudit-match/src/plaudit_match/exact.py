"""The `exact` verifier."""

from __future__ import annotations

from typing import Any

from plaudit import Verdict, verifier

from plaudit_match.answer import Where, find_answer, normalized, references


@verifier(executor="thread")
class Exact:
    """1 when the answer equals the reference (or one of a list), up to blanks and Unicode form.

    `ignore_case`, `ignore_punctuation` and `ignore_articles` loosen the comparison. An empty reference abstains.
    """

    def __init__(
        self,
        *,
        answer_in: Where = "all",
        ignore_case: bool = False,
        ignore_punctuation: bool = False,
        ignore_articles: bool = False,
    ) -> None:
        self._where = answer_in
        self._keep = {"case": not ignore_case, "punctuation": not ignore_punctuation, "articles": not ignore_articles}

    def verify(self, completion: Any, reference: Any) -> Verdict:
        accepted = references(reference)
        if accepted is None:
            return Verdict.abstain("the row has no reference")
        wanted = {normalized(text, **self._keep) for text in accepted} - {""}
        if not wanted:
            return Verdict.abstain("the reference is empty once it is normalised")
        answer = find_answer(completion, self._where)
        if answer is None:
            return Verdict.wrong(f"no answer found in {self._where}")
        if normalized(answer, **self._keep) in wanted:
            return Verdict.right(extracted=answer[:1000])
        return Verdict.wrong("differs from the reference", extracted=answer[:1000])
