"""README and pages about running: the tree is true, every key is documented, every command and block works."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from plaudit.run import schema
from plaudit.run.runfile import parse_run

ROOT = Path(__file__).parent.parent
PAGES = ["README.md", "docs/quickstart.md", "docs/reference/run-file.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Folders whose entries the tree names one by one.
LISTED = ("", "core/src/plaudit", "verifiers", "plugins")
UNLISTED = {".gitignore", "README.md", "__init__.py", "__main__.py", "py.typed"}


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return [body for found, body in BLOCK.findall(text) if found == language]


def tree_paths() -> set[str]:
    """The paths that the README's tree names, without the last slash."""
    found, above = set(), []
    for line in blocks("README.md", "text")[0].splitlines():
        name = line.split()[0].rstrip("/")
        depth = (len(line) - len(line.lstrip())) // 2
        above = [*above[:depth], name]
        found.add("/".join(above))
    return found


def test_the_tree_names_what_there_is():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    named = tree_paths()
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    there = set()
    for folder in LISTED:
        prefix = f"{folder}/" if folder else ""
        children = {path.removeprefix(prefix).split("/")[0] for path in listed if path.startswith(prefix)}
        there |= {prefix + child for child in children - UNLISTED}
    assert sorted(there - named) == []


def sections() -> list[tuple[str, type]]:
    return [
        ("[model]", schema.ModelSection),
        ("[data]", schema.DataSection),
        ("[[reward]]", schema.RewardSection),
        ("[[task]]", schema.TaskSection),
        ("[[environment]]", schema.EnvironmentSection),
        ("[[stage]]", schema.StageSection),
        ("[eval]", schema.EvalSection),
        ("[canary]", schema.CanarySection),
        ("[samples]", schema.SamplesSection),
    ]


@pytest.mark.parametrize(("heading", "section"), sections())
def test_the_reference_lists_exactly_the_keys_of_a_section(heading, section):
    text = (ROOT / "docs/reference/run-file.md").read_text(encoding="utf-8")
    part = text.split(f"## `{heading}`\n")[1].split("\n## ")[0]
    keys = re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE)
    assert sorted(keys) == sorted(field.metadata.get("key", field.name) for field in dataclasses.fields(section))


def test_the_reference_has_a_place_for_every_top_level_key():
    text = (ROOT / "docs/reference/run-file.md").read_text(encoding="utf-8")
    keys = re.findall(r"^\| `(\w+)` \|", text.split("\n## ")[0], re.MULTILINE)
    keys += re.findall(r"^## `\[+(\w+)\]+`$", text, re.MULTILINE)
    assert sorted(keys) == sorted(field.metadata.get("key", field.name) for field in dataclasses.fields(schema.RunFile))


@pytest.mark.parametrize("page", PAGES)
def test_toml_blocks_are_run_files(page):
    for body in blocks(page, "toml"):
        assert parse_run(tomllib.loads(body))


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/*.toml")), ids=lambda path: path.stem)
def test_examples_are_run_files(path):
    assert parse_run(tomllib.loads(path.read_text(encoding="utf-8")))


def commands() -> list[str]:
    """Every `plaudit …` line of a shell block, and every `$ plaudit …` of a session."""
    found = []
    for page in PAGES:
        lines = "".join(blocks(page, "sh") + blocks(page, "console")).splitlines()
        found += [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("plaudit ")]
    return found


@pytest.fixture
def copy_of_examples(tmp_path, monkeypatch):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


@pytest.mark.parametrize("command", commands())
def test_documented_commands_run(command, copy_of_examples, capsys):
    from plaudit.cli import main

    assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err


def test_the_session_prints_what_the_page_shows(copy_of_examples, capsys):
    from plaudit.cli import main

    for body in blocks("docs/quickstart.md", "console"):
        command, _, shown = body.removeprefix("$ ").partition("\n")
        assert main(shlex.split(command)[1:]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        for piece in shown.split("…"):
            assert " ".join(piece.split()) in printed


def test_the_readmes_reward_and_run_file_work_together(copy_of_examples):
    from plaudit.cli import main

    (copy_of_examples / "my_rewards.py").write_text(blocks("README.md", "python")[0], encoding="utf-8")
    (copy_of_examples / "run.toml").write_text(blocks("README.md", "toml")[0], encoding="utf-8")
    rewards = "reward=[{name='./my_rewards.py:short', options={limit=80}}, {name='./my_rewards.py:last_number'}]"
    assert main(["train", "run.toml", "--dry-run", "--set", rewards]) == 0
    assert main(["train", "run.toml", "--set", "config.max_steps=1"]) == 0
    assert (copy_of_examples / "runs" / "mine" / "report.md").exists()


def test_make_targets_in_the_readme_exist():
    help_text = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = {line.split()[0] for line in help_text.splitlines()}
    named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named <= targets
