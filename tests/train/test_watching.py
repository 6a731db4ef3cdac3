"""Canary rows, samples and health in a run from the command line, which trains as it would without them."""

from __future__ import annotations

import json

import pytest
from plaudit.cli import main

RUN = """
output_dir = "{folder}"
[model]
path = "quickstart"
[data]
name = "quickstart:addition"
max_rows = 64
[[reward]]
name = "addition"
[[reward]]
name = "think_answer_format"
[config]
num_generations = 4
per_device_train_batch_size = 8
max_completion_length = 40
max_steps = 4
logging_steps = 1
use_cpu = true
save_strategy = "no"
{more}
"""
CANARY = [{"prompt": "123+456=", "answer": "1"}, {"prompt": "1+1=", "answer": "7"}]


def train(folder, more="", canary=CANARY):
    folder.mkdir()
    (folder / "canary.jsonl").write_text("".join(json.dumps(row) + "\n" for row in canary))
    (folder / "run.toml").write_text(RUN.format(folder=folder / "out", more=more.replace("HERE", str(folder))))
    return main(["train", str(folder / "run.toml")])


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


WATCHED = (
    '[canary]\nevery = 2\nfloor = 1.0\n[canary.data]\npath = "HERE/canary.jsonl"\n[samples]\nevery = 2\nrows = 3\n'
)


def test_canary_and_samples_are_kept_and_change_nothing(tmp_path):
    assert train(tmp_path / "plain") == train(tmp_path / "watched", WATCHED) == 0
    plain, watched = (lines_of(tmp_path / name / "out" / "metrics.jsonl") for name in ("plain", "watched"))
    assert [line["reward"] for line in plain if "reward" in line] == [
        line["reward"] for line in watched if "reward" in line
    ]
    logged = {line["step"]: line for line in watched if "canary/reward" in line}
    assert list(logged) == [2, 4]
    assert {"canary/addition/mean", "canary/think_answer_format/mean"} <= logged[2].keys()
    assert [line["step"] for line in lines_of(tmp_path / "watched" / "out" / "samples.jsonl")] == [2, 2, 2, 4, 4, 4]
    assert len(lines_of(tmp_path / "watched" / "out" / "canary.jsonl")) == 4


def test_a_gamed_reward_is_said_and_stands_in_the_report(tmp_path, capsys):
    (tmp_path / "gamed.py").write_text("def gamed(completions, **_):\n    return [1.0 for _ in completions]\n")
    more = WATCHED.replace("floor = 1.0", "floor = 0.0") + f'[[reward]]\nname = "{tmp_path / "gamed.py"}:gamed"\n'
    assert train(tmp_path / "run", more) == 0
    assert "health: canary rows, which nothing can answer" in capsys.readouterr().out
    assert "## Health" in (tmp_path / "run" / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("[samples]\nevery = 0\n", "samples.every = 0"),
        ('[canary]\nevery = 5\n[canary.data]\npath = "nothing.jsonl"\n', "nothing.jsonl"),
        ("[canary]\nevery = 5\n", "canary.data"),
    ],
)
def test_wrong_sections_are_refused(tmp_path, more, says, capsys):
    assert train(tmp_path / "run", more) == 2
    assert says in capsys.readouterr().err


def test_out_of_memory_says_what_to_lower():
    from types import SimpleNamespace

    import torch
    from plaudit.errors import PlauditError
    from plaudit.run.watching import memory_advice

    config = SimpleNamespace(per_device_train_batch_size=8, max_completion_length=512)
    with (
        pytest.raises(PlauditError, match=r"out of memory: CUDA.*per_device_train_batch_size \(now 8\)"),
        memory_advice(config),
    ):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
