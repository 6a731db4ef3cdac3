"""`[data] streaming = true`: the rows of a file, as training gets to them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from plaudit.errors import UsageError
from plaudit.run.data import load_data
from plaudit.run.preflight import prepare_run
from plaudit.run.runfile import load_run_file
from plaudit.run.schema import DataSection, Shot
from plaudit.run.streaming import SEEN_BEFORE, open_stream

ROWS = [{"question": f"{n}+1=", "gold": f"is {n + 1}", "n": n} for n in range(SEEN_BEFORE + 44)]
HOW = {"columns": {"prompt": "question", "answer": "gold"}, "answer_pattern": "is (.+)", "streaming": True}


def write(folder: Path, kind: str, rows=ROWS) -> str:
    """The rows in a file of this kind, or a folder saved by datasets."""
    from datasets import Dataset

    path, data = folder / f"rows.{kind}", Dataset.from_list(rows)
    if kind == "folder":
        data.save_to_disk(path)
    else:
        {"jsonl": data.to_json, "csv": data.to_csv, "parquet": data.to_parquet}[kind](path)
    return str(path)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "folder"])
def test_a_stream_gives_the_rows_of_the_list(kind, tmp_path):
    more = {"system_prompt": "Add.", "few_shot": (Shot("1+1=", "2"),)} if kind == "jsonl" else {}
    data = DataSection(path=write(tmp_path, kind), max_rows=SEEN_BEFORE + 30, **HOW, **more)
    whole = load_data(dataclasses.replace(data, streaming=False), where="data", seed=0)
    opened = open_stream(data, where="data")
    assert list(opened.stream) == whole.train
    assert opened.train == whole.train[:SEEN_BEFORE]
    assert list(opened.stream) == whole.train  # again from the first


@pytest.mark.parametrize(("size", "limit"), [(3, None), (SEEN_BEFORE + 3, 5), (3, 5)])
def test_the_first_rows_are_held_out_and_max_rows_counts_those_after(size, limit, tmp_path):
    data = DataSection(path=write(tmp_path, "jsonl"), eval_size=size, max_rows=limit, **HOW)
    opened = open_stream(data, where="data")
    assert [row["n"] for row in opened.heldout] == list(range(size))
    assert [row["n"] for row in opened.stream] == list(range(size, len(ROWS) if limit is None else size + limit))


def test_rows_held_out_elsewhere(tmp_path):
    held = write(tmp_path, "parquet", ROWS[-7:])
    opened = open_stream(DataSection(path=write(tmp_path, "jsonl"), eval_path=held, eval_size=5, **HOW), where="data")
    assert [row["n"] for row in opened.heldout] == [row["n"] for row in ROWS[-7:-2]]
    assert len(list(opened.stream)) == len(ROWS)


def test_a_bad_row_far_behind_is_named_when_it_comes(tmp_path):
    path = write(tmp_path, "jsonl", [*ROWS, {"question": "2+2=", "gold": "four", "n": 0}])
    opened = open_stream(DataSection(path=path, **HOW), where="data")
    with pytest.raises(UsageError, match=f"the first is row {len(ROWS)}: .four."):
        list(opened.stream)
    with open(path, "a", encoding="utf-8") as file:
        file.write("{broken\n")
    with pytest.raises(UsageError, match=rf"rows.jsonl line {len(ROWS) + 2} is not JSON"):
        list(open_stream(DataSection(path=path, streaming=True, columns={"prompt": "question"}), where="data").stream)


@pytest.fixture
def streamed(run_folder, train):
    """`streamed("config.max_steps=2")`: train on a stream of additions."""
    text = (run_folder / "run.toml").read_text()
    there = 'path = "rows.jsonl"\nstreaming = true'
    text = text.replace('name = "quickstart:addition"\noptions = {size = 32}', there)
    (run_folder / "run.toml").write_text(text)
    rows = [{"prompt": f"{n}+{m}=", "answer": str(n + m)} for n in range(5) for m in range(4)]
    (run_folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return train


def test_a_run_on_a_stream(streamed, capsys):
    options = ("data.eval_size=4", 'config.eval_strategy="steps"', "config.eval_steps=2", "data.max_prompt_tokens=40")
    assert streamed(*options, 'output_dir="all"', "config.max_steps=6") == 0
    assert "a stream of rows, 4 held out" in " ".join(capsys.readouterr().out.split())
    metrics = [json.loads(line) for line in Path("all/metrics.jsonl").read_text().splitlines()]
    assert max(line["step"] for line in metrics) == 6


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (("config.max_steps=-1",), "data.streaming: nobody knows how many steps an epoch has; set config.max_steps"),
        (('engine="trl"',), "data.streaming: engine"),
        (("data.max_prompt_tokens=1",), "data.max_prompt_tokens = 1 drops each of the first 20 rows; raise it"),
        (("data.eval_size=20",), "data.eval_size = 20, but there are no more rows; hold out fewer"),
        (('data.path="rows.json"',), "no file 'rows.json'; did you mean"),
        (
            ('config.row_sampling="spread"',),
            "row_sampling and curriculum_column need rows that can be drawn in any order",
        ),
        (('data.columns={prompt = "text"}',), "has no column 'text'"),
    ],
)
def test_what_needs_all_rows_is_refused(changes, error, streamed, capsys):
    assert streamed("--dry-run", *changes) == 2
    assert error in " ".join(capsys.readouterr().err.split())


def test_a_list_in_one_json_file_does_not_stream(run_folder, streamed, capsys):
    (run_folder / "rows.json").write_text("[]")
    assert streamed("--dry-run", 'data.path="rows.json"') == 2
    assert "cannot stream 'rows.json': expected a file ending in .jsonl, .ndjson" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        ('[canary]\n[canary.data]\npath = "rows.jsonl"\nstreaming = true', "canary.data.streaming"),
        ('[[environment]]\nname = "x"', "data.streaming: rows for tools and environments are read at once"),
    ],
)
def test_other_sections_do_not_stream(tables, where, run_folder, streamed, capsys):
    with (run_folder / "run.toml").open("a") as file:
        file.write(tables)
    assert streamed("--dry-run") == 2
    assert where in " ".join(capsys.readouterr().err.split())


def test_a_stream_is_written_back_as_it_was_asked_for(streamed):
    prepared = prepare_run(load_run_file("run.toml"))
    assert prepared.run.data.streaming
    assert len(prepared.train) == 20
    assert prepared.sizes.epochs is None
