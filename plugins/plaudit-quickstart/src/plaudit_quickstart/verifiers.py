"""Verifiers of the two tasks: the exact answer, inside the answer tags."""

from __future__ import annotations

import re

from plaudit import Verdict, verifier

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


@verifier
def addition(completion: str, reference: str) -> Verdict:
    """1.0 if the one pair of answer tags holds exactly the sum, else 0.0 with the reason."""
    return _exact(completion, reference)


@verifier
def larger(completion: str, reference: str) -> Verdict:
    """1.0 if the one pair of answer tags holds exactly the larger number, else 0.0 with the reason."""
    return _exact(completion, reference)


def _exact(completion: str, reference: str) -> Verdict:
    found = ANSWER.findall(completion)
    if len(found) != 1:
        return Verdict.wrong(f"expected one <answer>…</answer>, found {len(found)}")
    if found[0] != str(reference):
        return Verdict.wrong(f"answered {found[0]!r}, the answer is {reference}", extracted=found[0])
    return Verdict.right(extracted=found[0])
