"""The skill for coding agents: its front matter is read, its templates run, its commands do what it says."""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml
from plaudit.cli import main

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "plaudit-grpo"
MODEL = "Qwen/Qwen2.5-1.5B-Instruct"
TEXT = (SKILL / "SKILL.md").read_text(encoding="utf-8")
SMALL = ("max_steps=1", "max_completion_length=16", "use_cpu=true")


@pytest.fixture
def copied(tmp_path, monkeypatch, chat_model) -> Path:
    """The templates copied to an empty current directory, the tiny model in place of the one that run.toml names."""
    folder = shutil.copytree(SKILL / "templates", tmp_path / "work", ignore=shutil.ignore_patterns("__pycache__"))
    run = folder / "run.toml"
    run.write_text(run.read_text(encoding="utf-8").replace(MODEL, str(chat_model)), encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


def test_the_front_matter_says_what_the_skill_is_for():
    head = yaml.safe_load(TEXT.split("---\n")[1])
    assert set(head) == {"name", "description"}
    assert head["name"] == SKILL.name
    assert re.fullmatch(r"[a-z0-9-]{1,64}", head["name"])
    assert 0 < len(head["description"]) <= 1024
    assert len(TEXT.splitlines()) <= 250


def test_every_file_that_it_names_is_there():
    named = set(re.findall(r"`(\w+\.(?:py|toml|jsonl))`", TEXT)) - {"metrics.jsonl", "samples.jsonl"}
    assert named <= {path.name for path in (SKILL / "templates").iterdir()}
    assert {"run.toml", "rewards.py", "verifier.py", "environment.py"} <= named


def test_its_commands_run_in_order(copied, chat_model, capsys):
    for block in re.findall(r"^```sh\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            program, *arguments = shlex.split(line.replace(MODEL, str(chat_model)))
            assert program == "plaudit"
            if arguments[0] == "train":
                arguments += [part for value in SMALL for part in ("--set", f"config.{value}")]
            assert main(arguments) == 0, line
    printed = capsys.readouterr().out
    means = dict(re.findall(r"^(\w+) +4 +([\d.]+)", printed, re.MULTILINE))
    assert means == {"answer_is": "0.25", "shown_work": "0.375", "short_answer": "1"}
    attacks = re.findall(r"^[a-z -]+ {2,}(\d+) +(\d+)\s*$", printed.partition("\nattack ")[2], re.MULTILINE)
    assert len(attacks) > 5
    assert all(tried == held for tried, held in attacks)
    assert (copied / "runs" / "mine" / "report.md").exists()


def test_the_templates_keep_the_contracts(copied, check_reward, check_verifier, check_environment):
    think, answer = "<think>six sevens are 42</think>", "<answer>42</answer>"
    check_verifier(
        "./verifier.py:answer_is",
        right=[(think + answer, "42"), ("<answer> mercury. </answer>", "Mercury")],
        wrong=[("<answer>13</answer>", "42"), (answer + answer, "42"), ("It is 42.", "42")],
        abstains=[(answer, " ")],
    )
    completions = [think + answer, "<think>hm</think>", f"<answer>{'x' * 30}</answer>"]
    check_reward("./rewards.py:shown_work", completions=completions, expected=[1.0, 0.5, 0.0])
    check_reward("./rewards.py:short_answer", completions=completions, expected=[1.0, None, 0.5])
    check_environment("./environment.py:Shelf")


def test_the_environment_trains(copied):
    """A run file with the environment in place of data and rewards."""
    import tomli_w

    table = tomllib.loads((copied / "run.toml").read_text(encoding="utf-8"))
    kept = {name: table[name] for name in ("output_dir", "model", "config")}
    (copied / "tools.toml").write_text(tomli_w.dumps({**kept, "environment": [{"name": "./environment.py:Shelf"}]}))
    changes = [part for value in SMALL for part in ("--set", f"config.{value}")]
    assert main(["train", "tools.toml", *changes]) == 0


def test_the_environment_pays_for_the_right_price_alone(copied):
    from plaudit import load_environment

    shelf = load_environment("./environment.py:Shelf")()
    wanted = re.search(r"piece of (\w+)", shelf.reset(seed=3))[1]
    assert shelf.get_reward() == 0.0
    price = int(shelf.look(wanted).split()[-1])
    shelf.answer(price + 1)
    assert shelf.get_reward() == 0.0
    shelf.answer(price)
    assert shelf.get_reward() == 1.0
    assert shelf.look("gold").startswith("There is no gold.")
