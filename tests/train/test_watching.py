"""Canary rows, samples and health in a run from the command line, which trains as it would without them."""

from __future__ import annotations

import json
import shutil

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
{save}
{more}
"""
CANARY = [{"prompt": "123+456=", "answer": "1"}, {"prompt": "1+1=", "answer": "7"}]


def train(folder, more="", canary=CANARY, save='save_strategy = "no"'):
    folder.mkdir()
    (folder / "canary.jsonl").write_text("".join(json.dumps(row) + "\n" for row in canary))
    (folder / "run.toml").write_text(
        RUN.format(folder=folder / "out", save=save, more=more.replace("HERE", str(folder)))
    )
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


def findings(folder, printed):
    """What the run said of its health, each also in its report; how long a step took is the machine's matter."""
    found = [line.removeprefix("health: ") for line in printed.splitlines() if line.startswith("health: ")]
    report = (folder / "out" / "report.md").read_text()
    assert all(line.split(" (step ")[0] in report for line in found)
    return [line for line in found if not line.startswith("a step takes")]


def test_a_run_that_cannot_learn_says_why_and_a_healthy_one_nothing(tmp_path, capsys):
    assert train(tmp_path / "well") == 0
    assert findings(tmp_path / "well", capsys.readouterr().out) == []
    main(["train", str(tmp_path / "well" / "run.toml"), "--overwrite", "--set", "config.max_completion_length=6"])
    cut = findings(tmp_path / "well", capsys.readouterr().out)
    assert [line.split(":")[0].split(" of ")[0] for line in cut] == ["reward_std is 0.000", "100%"]
    assert "Raise max_completion_length" in cut[1]


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


def test_samples_follow_the_run_when_it_goes_on_or_begins_anew(tmp_path):
    """A run killed after step 4 that goes on from step 2, then one in its place: each step stands there once."""
    more = WATCHED.replace("every = 2", "every = 1")
    folder = tmp_path / "run"
    assert train(folder, more, save="save_steps = 2") == 0
    run, out = str(folder / "run.toml"), folder / "out"
    (out / "report.md").unlink()
    for left in ("checkpoint-4", "model"):
        shutil.rmtree(out / left)
    whole = lines_of(out / "samples.jsonl"), lines_of(out / "canary.jsonl")
    assert main(["train", run, "--resume"]) == 0
    assert (lines_of(out / "samples.jsonl"), lines_of(out / "canary.jsonl")) == whole
    assert main(["train", run, "--overwrite"]) == 0
    assert (lines_of(out / "samples.jsonl"), lines_of(out / "canary.jsonl")) == whole
    plain = folder / "plain.toml"
    plain.write_text((folder / "run.toml").read_text().replace(more.replace("HERE", str(folder)), ""))
    assert main(["train", str(plain), "--overwrite", "--set", "config.max_steps=1"]) == 0
    assert not (out / "samples.jsonl").exists()
    assert not (out / "canary.jsonl").exists()


def test_a_run_that_goes_on_reports_what_was_found_before(tmp_path, capsys):
    (tmp_path / "gamed.py").write_text("def gamed(completions, **_):\n    return [1.0 for _ in completions]\n")
    more = WATCHED.replace("floor = 1.0", "floor = 0.0") + f'[[reward]]\nname = "{tmp_path / "gamed.py"}:gamed"\n'
    assert train(tmp_path / "run", more, save="save_steps = 2") == 0
    out = tmp_path / "run" / "out"
    (out / "report.md").unlink()
    shutil.rmtree(out / "checkpoint-4")
    capsys.readouterr()
    assert main(["train", str(tmp_path / "run" / "run.toml"), "--resume"]) == 0
    assert "health: canary rows" not in capsys.readouterr().out
    assert "canary rows, which nothing can answer" in (out / "report.md").read_text()
