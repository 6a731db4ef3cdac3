"""A plugin that this repository has never seen: `pip install` is all it takes to use its reward by name."""

from __future__ import annotations

import json
from pathlib import Path

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-vowels"
version = "2.3.1"
description = "Rewards of a stranger"
requires-python = ">=3.11"
dependencies = ["plaudit>=0.1,<1"]

[project.entry-points."plaudit.rewards"]
vowels = "acme_vowels:vowels"

[project.entry-points."plaudit.verifiers"]
same_letters = "acme_vowels:SameLetters"

[project.entry-points."plaudit.commands"]
vowel-count = "acme_vowels.command"
"""
CODE = '''
"""Rewards on letters."""

from plaudit import Verdict, verifier


def vowels(completions, *, letters: str = "aeiou", **columns):
    """How many vowels each completion has."""
    return [float(sum(c in letters for c in text)) for text in completions]


@verifier(version="1")
class SameLetters:
    """Whether the completion is an anagram of the reference."""

    def __init__(self, ignore_case: bool = True) -> None:
        self.ignore_case = ignore_case

    def verify(self, completion, reference):
        given, wanted = (sorted(t.lower() if self.ignore_case else t) for t in (completion, reference))
        return Verdict.right() if given == wanted else Verdict.wrong("other letters", extracted="".join(given))
'''
COMMAND = """
HELP = "count vowels"
def add_arguments(parser): parser.add_argument("text")
def run(args):
    print(sum(c in "aeiou" for c in args.text))
    return 0
"""
USE = """
import asyncio, json, pickle, sys
from plaudit import load_reward, load_verifier, list_plugins
reward = load_reward("vowels", options={"letters": "xy"})
again = pickle.loads(pickle.dumps(reward))
print(json.dumps({
    "scores": again(prompts=["p"], completions=["xyz"], completion_ids=[[1]]),
    "anagram": load_reward("acme-vowels:same_letters@2.3")(completions=["Listen"], answer=["silent"]),
    "reason": load_verifier("same_letters", options={"ignore_case": False})("Listen", "silent").reason,
    "plugins": [[p.kind, p.name, p.distribution, p.version] for p in list_plugins()],
    "torch": "torch" in sys.modules,
}))
"""


def write_plugin(folder: Path) -> Path:
    package = folder / "src" / "acme_vowels"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(
        PYPROJECT + '\n[tool.hatch.build.targets.wheel]\npackages = ["src/acme_vowels"]\n'
    )
    (package / "__init__.py").write_text(CODE)
    (package / "command.py").write_text(COMMAND)
    return folder


def test_an_installed_wheel_is_usable_by_name(clean_venv, build, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    before = json.loads(clean_venv.run("plaudit", "plugins", "--json", cwd=home))
    assert {row["distribution"] for row in before} == {"plaudit"}
    build(clean_venv.wheels, [write_plugin(tmp_path / "acme-vowels")])
    clean_venv.install("acme-vowels")

    rows = json.loads(clean_venv.run("plaudit", "plugins", "--json", cwd=home))
    added = [row for row in rows if row not in before]
    assert [(row["kind"], row["name"], row["version"]) for row in added] == [
        ("reward", "vowels", "2.3.1"),
        ("verifier", "same_letters", "2.3.1"),
        ("command", "vowel-count", "2.3.1"),
    ]
    assert "letters" in clean_venv.run("plaudit", "plugins", "vowels", cwd=home)
    sound = f"{len(rows)} of {len(rows)} components are sound"
    assert sound in clean_venv.run("plaudit", "plugins", "--check", cwd=home)
    assert clean_venv.run("plaudit", "vowel-count", "queue", cwd=home) == "4\n"

    used = json.loads(clean_venv.run("python", "-c", USE, cwd=home))
    assert used["scores"] == [2.0]
    assert used["anagram"] == [1.0]
    assert used["reason"] == "other letters"
    assert len(used["plugins"]) == len(rows)
    assert used["torch"] is False

    (home / "rows.jsonl").write_text(
        '{"completion": "Listen", "answer": "silent"}\n{"completion": "a", "answer": "b"}\n'
    )
    summary = json.loads(clean_venv.run("plaudit", "score", "same_letters", "--data", "rows.jsonl", "--json", cwd=home))
    assert (summary["n"], summary["mean"], summary["failures"]) == (2, 0.5, 0)
    scored = [json.loads(line) for line in (home / "rows.scored.jsonl").read_text().splitlines()]
    assert [(row["score"], row["reason"], row["extracted"]) for row in scored] == [
        (1.0, None, None),
        (0.0, "other letters", "a"),
    ]
    assert "vowels" in clean_venv.run("plaudit", "score", "vowels", "--data", "rows.jsonl", cwd=home)
    # Without pyarrow, csv and parquet are refused in words (exit code 2), not with a traceback.
    (home / "rows.csv").write_text("completion\na\n")
    clean_venv.run("plaudit", "score", "vowels", "--data", "rows.csv", cwd=home, code=2)
