"""`plaudit score`: a file of completions in, a summary and scored rows out."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from plaudit.cli import main
from pyarrow import parquet

REWARDS = """
import time
from plaudit import Verdict, reward

def exact(completion, reference, *, strict: bool = True):
    if completion == "boom":
        raise RuntimeError("no idea")
    right = completion == reference if strict else completion.lower() == reference.lower()
    reason = "same" if right else "different"
    return Verdict(float(right), reason, extracted=completion, metrics={"size": len(completion)})

async def later(completion, reference):
    return completion == reference

def length(completions, log_extra=None, **columns):
    log_extra("words", [len(c.split()) for c in completions])
    return [float(len(c)) for c in completions]

def levels(completions, level):
    return [float(x) for x in level]

def ids(completion_ids):
    return [float(len(i)) for i in completion_ids]

def prompted(completion, prompt):
    return completion == prompt

@reward(granularity="group")
def rank(completions, **columns):
    return [float(sorted(completions).index(c)) for c in completions]

def sleepy(completion):
    time.sleep(0.05)
    return 1.0

def hanging(completion):
    time.sleep(60)

def short(completions, **columns):
    return [1.0]

def shown(completion, reference):
    return Verdict(1.0, extracted=f"{completion!r} {reference!r}")

def unsure(completion):
    return None
"""
ROWS: list[dict[str, Any]] = [
    {"prompt": "p", "completion": "A", "answer": "A", "level": 1},
    {"prompt": "q", "completion": [{"role": "assistant", "content": "b"}], "answer": "B", "level": 2},
    {"prompt": "r", "completion": "c c", "answer": None, "level": 3},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards.py").write_text(REWARDS)
    write("rows.jsonl", ROWS)
    return tmp_path


def write(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def score(capsys: pytest.CaptureFixture[str], reward: str, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main(["score", f"./rewards.py:{reward}", "--data", "rows.jsonl", "--json", *arguments]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("reward", "arguments", "scores"),
    [
        ("exact", [], [1.0, 0.0, None]),
        ("exact", ["--option", "strict=false"], [1.0, 1.0, None]),
        ("exact", ["--options", '{"strict": false}'], [1.0, 1.0, None]),
        ("exact", ["--reference-column", "level"], [0.0, 0.0, 0.0]),
        ("exact", ["--limit", "2"], [1.0, 0.0]),
        ("exact", ["--column", "prompt"], [0.0, 0.0, None]),
        ("later", [], [1.0, 0.0, None]),
        ("levels", [], [1.0, 2.0, 3.0]),
        ("prompted", ["--column", "answer", "--limit", "2", "--prompt-column", "answer"], [1.0, 1.0]),
        ("unsure", [], [None, None, None]),
    ],
)
def test_scores_of_each_row(folder, capsys, reward: str, arguments: list[str], scores: list[float | None]) -> None:
    summary = score(capsys, reward, *arguments)
    rows = read("rows.scored.jsonl")
    assert [row["score"] for row in rows] == scores
    assert [{k: row[k] for k in original} for row, original in zip(rows, ROWS, strict=False)] == ROWS[: len(scores)]
    given = [s for s in scores if s is not None]
    assert summary["n"] == len(scores)
    assert summary["mean"] == (pytest.approx(sum(given) / len(given)) if given else None)
    assert (summary["abstained"], summary["failures"]) == (scores.count(None), 0)


def test_verdicts_fill_the_rows(folder, capsys) -> None:
    summary = score(capsys, "exact")
    rows = read("rows.scored.jsonl")
    assert [row["reason"] for row in rows] == [
        "same",
        "different",
        "no reference: column 'answer' is empty in this row",
    ]
    assert [row["extracted"] for row in rows] == ["A", "b", None]
    assert summary["metrics"] == {"exact/size": 1.0}


def test_logged_columns_come_along_and_names_that_are_taken_stay(folder, capsys) -> None:
    write("rows.jsonl", [{"completion": "a b", "score": 7, "words": "mine"}])
    score(capsys, "length")
    assert read("rows.scored.jsonl") == [
        {"completion": "a b", "score": 7, "words": "mine", "length/score": 3.0, "reason": None, "extracted": None,
         "length/words": 2}
    ]  # fmt: skip


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".csv", ".parquet"])
def test_every_format_goes_in_and_out(folder, capsys, ending: str) -> None:
    assert main(["score", "./rewards.py:exact", "--data", "rows.jsonl", "--output", f"out{ending}"]) == 0
    again = ["score", "./rewards.py:unsure", "--data", f"out{ending}", "--output", "again.jsonl", "--json"]
    assert main(again) == 0
    if ending == ".csv":
        with open("out.csv") as file:
            rows = list(csv.DictReader(file))
        assert [row["score"] for row in rows] == ["1.0", "0.0", ""]
        assert json.loads(rows[1]["completion"]) == ROWS[1]["completion"]
    elif ending == ".parquet":
        rows = parquet.read_table("out.parquet").to_pylist()
        assert [row["score"] for row in rows] == [1.0, 0.0, None]
        assert parquet.read_schema("out.parquet").field("score").type == pyarrow.float64()
    assert [row["score"] for row in read("again.jsonl")] in ([1.0, 0.0, None], [1, 0, None])


def test_completions_in_csv_stay_as_they_are_written(folder, capsys) -> None:
    Path("rows.csv").write_text('completion,answer\n007,7\n"line one\nline two",7\n7,7\n,7\n')
    main(["score", "./rewards.py:shown", "--data", "rows.csv", "--output", "out.jsonl"])
    seen = [row["extracted"] for row in read("out.jsonl")]
    assert seen == ["'007' 7", "'line one\\nline two' 7", "'7' 7", "'' 7"]


def test_failures_are_counted_told_and_never_a_zero(folder, capsys) -> None:
    write("rows.jsonl", [{"completion": "boom", "answer": "x"}] * 30 + [{"completion": "x", "answer": "x"}])
    summary = score(capsys, "exact")
    assert (summary["scored"], summary["failures"], summary["mean"]) == (1, 30, 1.0)
    assert summary["failures_by_kind"] == {"RuntimeError": 30}
    rows = read("rows.scored.jsonl")
    assert rows[0]["score"] is None
    assert "RuntimeError: no idea" in rows[0]["failure"]
    assert rows[30]["failure"] is None
    assert main(["score", "./rewards.py:exact", "--data", "rows.jsonl"]) == 0
    printed = capsys.readouterr()
    assert "row 1 failed: RuntimeError: no idea" in printed.err
    assert "and 25 more" in printed.err or "row 5 failed" in printed.err


def test_a_hanging_call_is_given_up(folder, capsys) -> None:
    summary = score(capsys, "hanging", "--timeout-s", "0.2", "--limit", "2", code=1)
    assert summary["failures_by_kind"] == {"timeout": 2}
    assert summary["scored"] == 0


def test_rows_are_scored_concurrently(folder, capsys) -> None:
    write("rows.jsonl", [{"completion": f"row {i}"} for i in range(40)])
    summary = score(capsys, "sleepy")
    assert summary["mean"] == 1.0
    assert summary["wall_s"] < 40 * 0.05
    assert summary["latency_p50_s"] >= 0.05


def test_groups(folder, capsys) -> None:
    write("rows.jsonl", [{"completion": c} for c in "badc"])
    score(capsys, "rank", "--num-generations", "2")
    assert [row["score"] for row in read("rows.scored.jsonl")] == [1.0, 0.0, 1.0, 0.0]


def test_token_ids_come_from_their_column(folder, capsys) -> None:
    write("rows.jsonl", [{"completion": "a", "completion_ids": [1, 2, 3]}])
    assert score(capsys, "ids")["mean"] == 3.0


ERRORS = [
    (["./rewards.py:exakt", "--data", "rows.jsonl"], "'exakt' is not in .*rewards.py; did you mean 'exact'?"),
    (["no-such-reward", "--data", "rows.jsonl"], "no reward or verifier named 'no-such-reward'"),
    (["./rewards.py:exact", "--data", "none.jsonl"], "no file 'none.jsonl'"),
    (["./rewards.py:exact", "--data", "rewards.py"], "expected a file ending in"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--column", "completions"], "did you mean --column completion?"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--reference-column", "gold"], "no column 'gold'"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--column", "level"], "row 1: column 'level' is 1; expected text"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--options", "{"], "is not JSON"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--options", "[]"], "is not a JSON object"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--option", "strict"], "expected KEY=VALUE"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--option", "strict=1"], "is 1 .int.; expected bool"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--option", "strikt=true"], "did you mean 'strict'?"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--output", "a.txt"], "cannot write 'a.txt'"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--output", "./rows.jsonl"], "is the data itself"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--limit", "0"], "--limit 0: expected at least 1"),
    (["./rewards.py:length", "--data", "rows.jsonl", "--reference-column", "answer"], "is for verifiers"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--output", "no/a.csv"], "there is no folder no"),
    (["./rewards.py:exact", "--data", "rows.jsonl", "--num-generations", "2"], "3 rows are no whole number"),
    (["./rewards.py:exact", "--data", "bare.jsonl"], "needs a reference"),
    (["./rewards.py:levels", "--data", "bare.jsonl"], "needs 'level'"),
    (["./rewards.py:ids", "--data", "rows.jsonl"], "needs token ids"),
    (["./rewards.py:short", "--data", "rows.jsonl"], "'short' returned 1 scores for 3 completions"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "says"), ERRORS)
def test_wrong_input_is_one_clear_line(folder, capsys, arguments: list[str], says: str) -> None:
    write("bare.jsonl", [{"completion": "a"}])
    assert main(["score", *arguments]) == 2
    error = capsys.readouterr().err
    assert re.search(says, error), error
    assert error.startswith("error: ")
    assert error.count("\n") <= 2
    assert not list(Path().glob("*.scored.*"))


def test_neither_a_model_nor_torch_is_loaded(folder) -> None:
    script = (
        "import sys; from plaudit.cli import main\n"
        "assert main(['score', './rewards.py:exact', '--data', 'rows.jsonl']) == 0\n"
        "print(sorted({'torch', 'transformers', 'datasets'} & {m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr
    assert "rows: rows.scored.jsonl" in done.stdout
