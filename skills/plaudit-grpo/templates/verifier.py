"""A verifier: judges one completion against the row's answer.

Wrong is 0.0 with a reason, what cannot be judged abstains, what is broken raises. Prove it on cases with known
verdicts: `plaudit audit ./verifier.py:answer_is --cases cases.jsonl --kind math`.
"""

from __future__ import annotations

import re
import unicodedata

from plaudit import Verdict, verifier

ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def normal(text: str) -> str:
    """Spaces, case, a final full stop and full-width characters do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).split()).casefold().removesuffix(".")


@verifier(timeout_s=5, version="1")
def answer_is(completion: str, reference: str) -> Verdict:
    """1 when exactly one answer block holds the reference."""
    if not str(reference).strip():
        return Verdict.abstain("the row has no answer")
    found = ANSWER.findall(completion)
    # One block only: a policy that lists every answer must not be paid for it.
    if len(found) != 1:
        return Verdict.wrong(f"expected one <answer>…</answer>, found {len(found)}")
    if normal(found[0]) != normal(str(reference)):
        return Verdict.wrong(f"answered {found[0].strip()!r}", extracted=found[0])
    return Verdict.right(extracted=found[0])
