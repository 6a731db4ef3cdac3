"""docs/concepts/scoring.md: its run file, weights, program and table of keys are true."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest
from plaudit.cli import main
from plaudit.run.runfile import parse_run
from plaudit.scoring.schedules import as_schedule
from plaudit.scoring.spec import RewardSpec

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "scoring.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the pages are not part of the distribution")


def blocks(language: str) -> list[str]:
    return [body for found, body in BLOCK.findall(PAGE.read_text(encoding="utf-8")) if found == language]


def test_the_run_file_is_one():
    run = parse_run(tomllib.loads(blocks("toml")[0]))
    assert [section.name for section in run.rewards] == ["addition", "format"]


def test_the_weights_are_schedules():
    for line in blocks("toml")[1].splitlines():
        assert as_schedule(tomllib.loads(line)["weight"])(0) >= 0


def test_the_program_prints_what_the_page_shows(capsys):
    exec(compile(blocks("python")[0], str(PAGE), "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == blocks("text")[-1]


def test_the_table_has_every_key():
    keys = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*) \|", PAGE.read_text(), re.MULTILINE))))
    fields = {field.name for field in dataclasses.fields(RewardSpec)}
    assert fields - {"reward", "name", "reference_column", "applies"} <= keys


def test_the_commands_run(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PLAUDIT_CACHE", str(tmp_path))
    for line in blocks("sh")[0].splitlines():
        assert main(line.split()[1:]) == 0
