"""The code of docs/concepts/models.md runs, and its run-file tables are ones that a run file takes."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from plaudit.run.schema import ModelSection

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "models.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the pages are not part of the distribution")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_python_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in blocks("python"):
        exec(block, names)
    assert names["config"].model_init_kwargs["dtype"] == "bfloat16"
    assert len(names["reward_funcs"]) == len(names["reward_processing_classes"])
    assert names["rows"][0]["image"].size == (64, 64)


def test_run_file_blocks_hold_known_keys():
    known = {field.name for field in fields(ModelSection)}
    tables = [tomllib.loads(block) for block in blocks("toml")]
    assert tables
    assert all(set(table["model"]) <= known for table in tables)
