"""The `regex` verifier."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

from plaudit import Verdict, verifier

from plaudit_match.answer import Where, find_answer, references


@verifier(executor="thread")
class Pattern:
    """1 when the reference, a regular expression in RE2's syntax, matches the answer. RE2 runs in linear time.

    `match`: "search" anywhere, "full" the whole answer. With `forbid` a match is 0 and no match 1. A pattern that does
    not compile abstains.
    """

    def __init__(
        self, *, answer_in: Where = "all", match: Literal["search", "full"] = "search", forbid: bool = False
    ) -> None:
        self._where, self._match, self._forbid = answer_in, match, forbid

    def verify(self, completion: Any, reference: Any) -> Verdict:
        patterns = references(reference)
        if patterns is None:
            return Verdict.abstain("the row has no pattern")
        compiled = [_compiled(pattern) for pattern in patterns]
        if None in compiled:
            return Verdict.abstain(f"not a pattern in RE2's syntax: {reference!r}"[:200])
        answer = find_answer(completion, self._where)
        if answer is None:
            return Verdict.wrong(f"no answer found in {self._where}")
        found = next((hit for hit in (self._hit(one, answer) for one in compiled) if hit is not None), None)
        extracted = None if found is None else found[:1000]
        if (found is None) == self._forbid:
            return Verdict.right(extracted=extracted)
        return Verdict.wrong(
            "the pattern matches" if self._forbid else "the pattern does not match", extracted=extracted
        )

    def _hit(self, compiled: Any, answer: str) -> str | None:
        match = compiled.fullmatch(answer) if self._match == "full" else compiled.search(answer)
        return None if match is None else str(match.group())


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
