"""The cases: those collected from public bug reports, and the package's own, which cheat, hang and reword."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from plaudit_math import verify
from plaudit_math.corpus import cases

PUBLIC = [
    json.loads(line) for line in (Path(__file__).parent / "data/public_math.jsonl").read_text("utf-8").splitlines()
]
OWN = cases()
KEPT_APART = {"math-intervals_inequalities-28"}
"""Ambiguous rows whose expectation contradicts the policy they state; the policy is followed."""


def wrong(rows: list[dict], **options: float) -> list[str]:
    found = []
    for row in rows:
        began = time.monotonic()
        verdict = verify(row["completion"], row["gold"], row["prompt"], **options)
        seconds = time.monotonic() - began
        if (verdict.score == 1.0) is not row["expected"] or seconds > 5:
            found.append(f"{row['id']}: {verdict.score} ({verdict.reason}) in {seconds:.1f} s")
    return found


@pytest.mark.parametrize("family", sorted({row["family"] for row in PUBLIC}))
def test_public_cases(family: str) -> None:
    assert wrong([row for row in PUBLIC if row["family"] == family and row["id"] not in KEPT_APART]) == []


@pytest.mark.parametrize("family", sorted({row["family"] for row in OWN}))
def test_own_cases(family: str) -> None:
    rows = [row for row in OWN if row["family"] == family]
    assert wrong(rows, **({"timeout_s": 1.0} if family == "hangs" else {})) == []


def test_every_family_has_right_and_wrong_answers() -> None:
    one_sided = {"injection", "hedging_hacks"}
    for family in {row["family"] for row in OWN} - one_sided:
        assert {row["expected"] for row in OWN if row["family"] == family} == {True, False}, family


def test_every_gold_answer_passes_itself() -> None:
    dollars = re.compile(r"(?<!\\)\$")
    for row in OWN:
        gold = row["gold"]
        if row["expected"] and "\\boxed" not in gold and "####" not in gold:
            verdict = verify(f"So \\boxed{{{dollars.sub('', gold)}}}", gold)
            assert verdict.score == 1.0, (gold, verdict)
