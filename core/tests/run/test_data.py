"""From files and plugins to rows: formats, columns, answers, system prompt, few-shot turns, held-out rows, tasks."""

from __future__ import annotations

import json
import sys
import types

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plaudit import UsageError
from plaudit.run.data import load_data
from plaudit.run.files import read_rows
from plaudit.run.mixing import mix_tasks
from plaudit.run.schema import DataSection, Shot

ROWS = [{"question": "1+1", "answer": "one\n#### 2"}, {"question": "2+2", "answer": "two\n#### 4"}]


def load(data: DataSection):
    return load_data(data, where="data", seed=0)


@pytest.fixture
def files(tmp_path):
    rows = [{"prompt": f"{i}+{i}\u2028=", "answer": str(2 * i)} for i in range(5)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n", "utf-8")
    (tmp_path / "a.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "a.csv").write_text("prompt,answer\n" + "".join(f"p{i},x{i}\n" for i in range(5)), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.parquet"])
def test_formats_give_the_same_rows(files, name):
    assert read_rows(files / name) == [{"prompt": f"{i}+{i}\u2028=", "answer": str(2 * i)} for i in range(5)]


def test_csv_columns_come_from_its_header(files):
    assert read_rows(files / "a.csv")[1] == {"prompt": "p1", "answer": "x1"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", "", "holds no rows"),
        ("empty.csv", "", "holds no rows"),
        ("header.csv", "a,b\n", "holds no rows"),
        ("empty.json", "[]", "holds no rows"),
        ("bad.jsonl", '{"a": 1}\n{"a": \n', "bad.jsonl line 2 is not JSON"),
        ("list.jsonl", "[1]\n", "line 1 is [1]: expected an object"),
        ("one.json", '{"a": 1}', "expected a list of objects"),
        ("bad.parquet", "no parquet", "is not a parquet file"),
        ("text.txt", "x", "expected a file ending in .jsonl"),
        ("bad.csv", "a,b\n1\n", "is not CSV"),
    ],
)
def test_unreadable_files_name_file_and_place(tmp_path, name, content, message):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_rows(tmp_path / name)
    assert message in str(caught.value)


def test_a_missing_file_names_the_closest(files):
    with pytest.raises(UsageError, match=r"no file '.*b\.jsonl'; did you mean '.*a\.jsonl'"):
        read_rows(files / "b.jsonl")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    return str(path)


def test_columns_are_mapped_and_the_answer_is_cut_out(source):
    data = load(DataSection(path=source, columns={"prompt": "question"}, answer_pattern=r"####\s*(.+)"))
    assert data.train == [{"prompt": "1+1", "answer": "2"}, {"prompt": "2+2", "answer": "4"}]


def test_a_column_may_serve_twice_and_one_that_is_mapped_over_goes(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"prompt": "old", "text": "new"}]), encoding="utf-8")
    data = load(DataSection(path=str(path), columns={"prompt": "text", "reference": "text"}))
    assert data.train == [{"prompt": "new", "reference": "new"}]


SYSTEM = {"role": "system", "content": "Think."}
SHOTS = [{"role": "user", "content": "3+3"}, {"role": "assistant", "content": "6"}]
USER = {"role": "user", "content": "1+1"}


@pytest.mark.parametrize(
    ("prompt", "system", "shots", "expected"),
    [
        ("1+1", None, (), "1+1"),
        ("1+1", "Think.", (), [SYSTEM, USER]),
        ("1+1", "Think.", (Shot("3+3", "6"),), [SYSTEM, *SHOTS, USER]),
        ("1+1", None, (Shot("3+3", "6"),), [*SHOTS, USER]),
        ([USER], None, (), [USER]),
        ([USER], "Think.", (), [SYSTEM, USER]),
        ([SYSTEM, USER], None, (Shot("3+3", "6"),), [SYSTEM, *SHOTS, USER]),
    ],
)
def test_turns_before_the_prompt(tmp_path, prompt, system, shots, expected):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"prompt": prompt}]), encoding="utf-8")
    data = load(DataSection(path=str(path), system_prompt=system, few_shot=shots))
    assert data.train == [{"prompt": expected}]


@pytest.mark.parametrize(
    ("rows", "section", "message"),
    [
        (
            ROWS,
            {"columns": {"prompt": "questions"}},
            "no column 'questions'; did you mean 'question'? (columns: question",
        ),
        (ROWS, {}, "has no column 'prompt' (columns: question, answer); set data.columns = {prompt = \"question\"}"),
        ([{"prompt": "x"}], {"answer_pattern": "(.)"}, "answer_pattern needs a column 'answer'"),
        (ROWS, {"columns": {"prompt": "question"}, "answer_pattern": "=> (.+)"}, "finds nothing in 2 of 2 answers"),
        ([{"prompt": "x"}, {"prompt": None}], {}, "row 1 of"),
        ([{"prompt": ""}], {}, "expected text or a list of messages"),
        ([{"prompt": [SYSTEM, USER]}], {"system_prompt": "x"}, "begins with a system message already"),
        ([{"prompt": "x"}], {"eval_size": 1}, "data.eval_size = 1, but there are only 1 rows"),
        ([{"prompt": "x"}], {"split": "test"}, "is one file: it has no split 'test'"),
    ],
)
def test_bad_rows_are_named(tmp_path, rows, section, message):
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(rows), encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load(DataSection(path=str(path), **section))
    assert message in str(caught.value)


def test_held_out_rows_are_taken_away_from_training_the_same_each_time(files):
    data = load(DataSection(path=str(files / "a.json"), eval_size=2, max_rows=2))
    assert len(data.heldout) == 2
    assert len(data.train) == 2
    assert not {row["prompt"] for row in data.heldout} & {row["prompt"] for row in data.train}
    assert data == load(DataSection(path=str(files / "a.json"), eval_size=2, max_rows=2))


def test_held_out_rows_of_a_file_of_their_own(files):
    data = load(DataSection(path=str(files / "a.json"), eval_path=str(files / "a.csv"), eval_size=3))
    assert len(data.train) == 5
    assert [row["prompt"] for row in data.heldout] == ["p0", "p1", "p2"]


def test_folder_saved_by_datasets(tmp_path):
    from datasets import Dataset, DatasetDict

    parts = DatasetDict(train=Dataset.from_list([{"prompt": "a"}]), test=Dataset.from_list([{"prompt": "b"}]))
    parts.save_to_disk(str(tmp_path / "saved"))
    data = load(DataSection(path=str(tmp_path / "saved"), eval_split="test"))
    assert (data.train, data.heldout) == ([{"prompt": "a"}], [{"prompt": "b"}])
    with pytest.raises(UsageError, match=r"has no split 'dev' \(splits: train, test\)"):
        load(DataSection(path=str(tmp_path / "saved"), split="dev"))
    with pytest.raises(UsageError, match="was not saved by datasets"):
        load(DataSection(path=str(tmp_path)))


@pytest.fixture
def module(monkeypatch):
    """A module `rowmaker` with a dataset function, as a user or plugin would write it."""
    made = types.ModuleType("rowmaker")

    def rows(split, *, size: int = 2):
        if split == "broken":
            raise ValueError("no such split")
        return ({"prompt": f"{split}{i}"} for i in range(size))

    made.rows = rows
    monkeypatch.setitem(sys.modules, "rowmaker", made)


def test_a_dataset_function_gets_split_and_options(module):
    data = load(DataSection(name="rowmaker:rows", options={"size": 3}, eval_split="test"))
    assert [row["prompt"] for row in data.train] == ["train0", "train1", "train2"]
    assert data.heldout[0]["prompt"] == "test0"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"options": {"sise": 3}}, "has no option 'sise'; did you mean 'size'?"),
        ({"options": {"size": "3"}}, "option 'size' is '3'"),
        ({"options": {"size": 0}}, "holds no rows"),
        ({"split": "broken"}, "failed for split 'broken': no such split"),
        ({"config": "main"}, "data.config is for hub datasets"),
    ],
)
def test_a_dataset_function_that_cannot_be_called_as_asked(module, section, message):
    with pytest.raises(UsageError) as caught:
        load(DataSection(name="rowmaker:rows", **section))
    assert message in str(caught.value)


def test_an_unknown_dataset_says_what_is_installed_and_that_the_hub_has_none(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UsageError) as caught:
        load(DataSection(name="nobody/nothing"))
    assert "no installed plugin offers the dataset 'nobody/nothing' (installed: " in str(caught.value)
    assert "and the hub does not either" in str(caught.value)


def test_tasks_keep_their_rows_and_get_a_task_column():
    mixed = mix_tasks({"a": [{"prompt": "a0", "answer": 1}], "b": [{"prompt": "b0", "solution": "s"}]})
    assert mixed == [
        {"prompt": "a0", "answer": 1, "solution": None, "task": "a"},
        {"prompt": "b0", "answer": None, "solution": "s", "task": "b"},
    ]


def test_a_task_column_that_says_otherwise_is_refused():
    with pytest.raises(UsageError, match="has a column 'task' of its own"):
        mix_tasks({"a": [{"prompt": "x", "task": "b"}]})


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    ratios=st.lists(st.floats(0.1, 10), min_size=3, max_size=3),
)
def test_ratios_hold_over_the_whole_and_no_row_is_lost(sizes, ratios):
    tasks = {f"t{i}": [{"prompt": f"t{i}-{k}"} for k in range(size)] for i, size in enumerate(sizes)}
    wanted = dict(zip(tasks, ratios, strict=False))
    mixed = mix_tasks(tasks, wanted)
    counts = {name: sum(row["task"] == name for row in mixed) for name in tasks}
    scale = max(len(tasks[name]) / wanted[name] for name in tasks)
    assert all(abs(counts[name] - scale * wanted[name]) <= 0.5 for name in tasks)
    assert {row["prompt"] for row in mixed} == {row["prompt"] for rows in tasks.values() for row in rows}
    half = mixed[: len(mixed) // 2]
    assert all(abs(sum(row["task"] == name for row in half) - counts[name] / 2) <= 2 for name in tasks)
