"""verifiers before 0.4: its environments as our rows and verifier."""

import asyncio

from plaudit import load_verifier
from plaudit.plugins.loading import load_plugin


def test_a_rubric_gives_rows_and_scores():
    options = {"environment": "tiny_rubric", "options": {"count": 3}}
    rows = load_plugin("dataset", "verifiers", options=options)(split="train")
    assert [row["answer"] for row in rows] == ["1", "2", "3"]
    assert rows[0]["prompt"][-1]["content"] == "0+1="
    judge = load_verifier("verifiers", options=options)
    told = asyncio.run(judge("2", prompt=rows[1]["prompt"], answer="2", task_index=1))
    wrong = asyncio.run(judge("long", prompt=rows[1]["prompt"], answer="2", task_index=1))
    assert (told.score, told.metrics["right"], told.metrics["short"]) == (1.5, 1.0, 1.0)
    assert wrong.score == 0.0
