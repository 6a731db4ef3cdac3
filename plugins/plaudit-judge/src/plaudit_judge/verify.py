"""The `judge` verifier: reads a judge's reply as the rewards do, with no model, so that the reading can be audited."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit import Verdict, completion_text, verifier

from plaudit_judge import replies
from plaudit_judge.group import pair_score
from plaudit_judge.prefilter import holds_no_answer, is_the_gold
from plaudit_judge.prompts import tries_to_escape


@verifier(executor="thread")
def verify_reply(completion: Any, reference: Mapping[str, Any]) -> Verdict:
    """The score that a reply gives, by the form that the reference names; an unclear reply abstains.

    `reference["parse"]`: "score" (label, scale), "verdict" (tokens), "grade" (pattern, map), "json" (key, scale) or
    "json_list" (n, scale; the scores stand in the column `scores`). `{"stage": "prefilter", "gold"}` judges a candidate
    before any judge is asked, `{"stage": "prompt", "delimiter"}` whether a candidate tries to leave its quotation.
    `{"first_order", "swapped_order"}` joins two presentations, "A|A". `{"judge_error"}` abstains.
    """
    text = completion_text(completion)
    if not isinstance(reference, Mapping):
        return Verdict.abstain("the reference must say how to read the reply")
    if "judge_error" in reference:
        return Verdict.abstain(f"the judge failed: {reference['judge_error']}")
    if "first_order" in reference:
        return _pairwise(text)
    if "stage" in reference:
        return _before_the_judge(text, reference)
    try:
        return _read(text, reference)
    except replies.Unclear as error:
        return Verdict.abstain(str(error))
    except KeyError as error:
        return Verdict.abstain(f"the reference needs {error}")


def _read(text: str, reference: Mapping[str, Any]) -> Verdict:
    form = reference.get("parse")
    if form == "score":
        return Verdict(replies.read_score(text, reference["label"], reference["scale"]))
    if form == "verdict":
        return Verdict(float(replies.read_verdict(text, reference["tokens"])))
    if form == "grade":
        return Verdict(float(replies.read_grade(text, reference["pattern"], reference["map"])))
    if form == "json":
        return Verdict(replies.read_json_score(text, reference["key"], reference["scale"]))
    if form == "json_list":
        scores = replies.read_json_scores(text, int(reference["n"]), reference["scale"])
        return Verdict(sum(scores) / len(scores), columns={"scores": scores})
    return Verdict.abstain(f"unknown form {form!r}; known: score, verdict, grade, json, json_list")


def _before_the_judge(text: str, reference: Mapping[str, Any]) -> Verdict:
    if reference["stage"] == "prompt":
        if tries_to_escape(text, str(reference.get("delimiter", ""))):
            return Verdict.wrong("the candidate writes the delimiter of its own quotation; it is escaped")
        return Verdict.abstain("needs the judge")
    if holds_no_answer(text):
        return Verdict.wrong("holds no answer; no judge is asked")
    if is_the_gold(text, str(reference.get("gold") or "")):
        return Verdict.right("is the reference itself")
    return Verdict.abstain("needs the judge")


def _pairwise(text: str) -> Verdict:
    """Both presentations name the winner by place: A is the one shown first."""
    by_place = {"A": 1.0, "B": 0.0, "TIE": 0.5, "C": 0.5}
    first, _, second = (part.strip().upper() for part in text.partition("|"))
    ahead, back = by_place.get(first), by_place.get(second)
    score = pair_score(ahead, None if back is None else 1.0 - back)
    return Verdict.abstain("a presentation has no winner") if score is None else Verdict(score)
