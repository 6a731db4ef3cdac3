"""`plaudit new`, `check` and `publish`: every kind of package is ready as written, and each fault is found."""

from __future__ import annotations

import json
import subprocess

import pytest
from plaudit.audit.isolated import score_file
from plaudit.authoring.environment import build_wheel, environment_with
from plaudit.authoring.readiness import check_package
from plaudit.authoring.scaffold import write_package
from plaudit.cli import main


@pytest.mark.parametrize("kind", ["reward", "verifier", "environment", "sandbox"])
def test_a_new_package_is_ready_as_written(tmp_path, kind):
    home = write_package(kind, "my-own", tmp_path)
    findings = check_package(home)
    assert [(one.check, one.detail) for one in findings if not one.ok] == []
    assert len(findings) == 7
    details = {one.check: one.detail for one in findings}
    assert f"{kind} my-own" in details["entry points"]
    assert "passed" in details["tests"]
    assert ("6 of 6" in details["audit"]) == (kind == "verifier")


def test_a_new_package_used_by_us_and_by_trl(tmp_path):
    """Scaffold, build, install in a fresh environment, and score there, by name and as TRL's trainer calls it."""
    home = write_package("verifier", "my-own", tmp_path)
    wheel = build_wheel(home, tmp_path)
    rows = [{"completion": "Oslo", "answer": "Oslo"}, {"completion": "Rome", "answer": "Oslo"}]
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(map(json.dumps, rows)))
    assert score_file(f"{wheel}:my-own", data, []) == [1.0, 0.0]

    python = environment_with(wheel, tmp_path)
    program = (
        "from trl.trainer.grpo_trainer import GRPOTrainer\n"
        "from types import SimpleNamespace as N\n"
        "import torch, plaudit\n"
        "reward = plaudit.load_reward('my-own')\n"
        "t = GRPOTrainer.__new__(GRPOTrainer)\n"
        "t.accelerator = N(device='cpu'); t.state = None; t.reward_funcs = [reward]; t.reward_func_names = ['my-own']\n"
        "t.reward_processing_classes = [None]\n"
        "rows = [{'prompt': 'p', 'answer': 'Oslo'}, {'prompt': 'p', 'answer': 'Oslo'}]\n"
        "scores = reward(prompts=['p', 'p'], completions=['Oslo', 'Rome'], completion_ids=[[1], [2]],\n"
        "                answer=['Oslo', 'Oslo'], trainer_state=None, log_extra=None, log_metric=None)\n"
        "assert callable(t.reward_funcs[0]) and t.reward_funcs[0].__name__ == 'my-own'\n"
        "print(torch.tensor(scores).tolist())\n"
    )
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1.0, 0.0]", done.stderr[-1500:]


def broken(tmp_path, *edits):
    home = write_package("verifier", "my-own", tmp_path)
    for path, old, new in edits:
        file = home / path
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    return {one.check: one.detail for one in check_package(home) if not one.ok}


def test_every_fault_is_found_at_once(tmp_path):
    faults = broken(
        tmp_path,
        ("pyproject.toml", 'license = "Apache-2.0"\n', ""),
        ("pyproject.toml", 'license-files = ["LICENSE"]\n', ""),
        ("pyproject.toml", '"plaudit>=0.1,<1"', ""),
        ("pyproject.toml", 'my-own = "plaudit_my_own.verifier:my_own"', 'my-own = "plaudit_my_own.verifier:gone"'),
        ("tests/test_my_own.py", "Rome", "Oslo"),
    )
    assert "no licence" in faults["licence"]
    assert "depend on plaudit" in faults["metadata"]
    assert "gone" in faults["entry points"]
    assert "failed" in faults["tests"]
    assert set(faults) == {"licence", "metadata", "entry points", "tests", "audit"}


def test_a_package_that_does_not_build(tmp_path):
    faults = broken(tmp_path, ("pyproject.toml", '"hatchling.build"', '"hatchling.nothing"'))
    assert set(faults) == {"build"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "reward", "Bad_Name!"], "cannot be a name"),
        (["new", "reward", "class"], "cannot be a name"),
        (["new", "reward", "my-own", "--directory", "nowhere"], "no folder nowhere"),
        (["check", "nowhere"], "no nowhere/pyproject.toml"),
        (["publish", "nowhere"], "no nowhere/pyproject.toml"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_new_refuses_what_is_there(tmp_path, capsys):
    assert main(["new", "reward", "my-own", "--directory", str(tmp_path)]) == 0
    assert main(["new", "reward", "my-own", "--directory", str(tmp_path)]) == 2
    assert "exists" in capsys.readouterr().err
