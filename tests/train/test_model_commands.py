"""`plaudit generate` and `plaudit eval` with the quickstart's model."""

from __future__ import annotations

import io
import json

import pytest
from plaudit.cli import main
from plaudit_quickstart.data import addition

SHORT = ["--max-new-tokens", "40"]
ROWS = addition(split="test")[:12]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(dict(row)) + "\n" for row in ROWS))
    return path


def test_generate_prints_prompts_and_completions(capsys, monkeypatch):
    assert main(["generate", "quickstart", "123+456=", "--max-new-tokens", "40"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("123+456=\n--> <think>")
    monkeypatch.setattr("sys.stdin", io.StringIO("123+456=\n\n"))
    assert main(["generate", "quickstart", "--max-new-tokens", "40"]) == 0
    assert capsys.readouterr().out == first


def test_a_seed_gives_the_same_samples(capsys):
    line = [
        "generate",
        "quickstart",
        "123+456=",
        "--max-new-tokens",
        "40",
        "--temperature",
        "1",
        "-n",
        "3",
        "--seed",
        "5",
    ]
    outputs = []
    for _ in range(2):
        assert main(line) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert outputs[0].count("-->") == 3


def test_eval_compares_two_models(data, tmp_path, capsys):
    out = tmp_path / "all.jsonl"
    line = ["eval", "quickstart", "quickstart", "--data", str(data), "--reward", "addition", "--max-new-tokens", "40"]
    assert main([*line, "--output", str(out)]) == 0
    printed = capsys.readouterr().out
    row = next(words for words in map(str.split, printed.splitlines()) if words and words[0] == "addition")
    assert row[1] == "12"
    assert row[4] == "+0.000"
    assert row[-1] == "1"
    assert len(out.read_text().splitlines()) == 24


def test_eval_measures_one(data, capsys):
    assert (
        main(["eval", "quickstart", "--data", str(data), "--reward", "addition", "--limit", "4", "-n", "2", *SHORT])
        == 0
    )
    assert "mean" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("eval a b c --data rows.jsonl --reward addition", "3 models were given"),
        ("eval quickstart --data nothing.jsonl --reward addition", "nothing.jsonl"),
        ("eval quickstart --data rows.jsonl --reward no_such_reward", "no_such_reward"),
        ("eval nowhere/to/be/found --data rows.jsonl --reward addition", "nowhere/to/be/found"),
        ("eval quickstart --data rows.jsonl --reward addition --output x.txt", "x.txt"),
        ("eval quickstart --data rows.jsonl --reward addition --limit 0", "--limit 0: expected at least 1"),
        ("eval quickstart --data rows.jsonl --reward math --limit 1 --max-new-tokens 1", "no row has a score"),
        ("merge nowhere out", "'nowhere' holds no adapter: it has no adapter_config.json"),
        ("merge whole out", "a whole model is there: it needs no merging"),
        ("merge adapter rows.jsonl", "'rows.jsonl' is a file"),
        ("merge adapter whole", "'whole' is not empty"),
        ("vllm estimate nowhere.toml", "no run file 'nowhere.toml'"),
        ("generate quickstart a --temperature -1", "temperature"),
        ("generate quickstart a -n 0", "-n 0"),
        ("generate ./no_folder a", "no_folder"),
    ],
)
def test_wrong_command_lines_are_refused(line, says, data, monkeypatch, capsys):
    for name, file in (("whole", "config.json"), ("adapter", "adapter_config.json")):
        (data.parent / name).mkdir()
        (data.parent / name / file).write_text("{}")
    if "--reward math" in line:
        data.write_text('{"prompt": "1+1=", "answer": null}\n')
    monkeypatch.chdir(data.parent)
    assert main(line.split()) == 2
    assert says in capsys.readouterr().err
