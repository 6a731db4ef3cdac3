"""The benchmarks of the engine: what they write, and one short measurement of each."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def module(monkeypatch):
    """Imports a script of the folder by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def seconds(workload, competitor, cpu):
    return {
        "workload": workload,
        "competitor": competitor,
        "cpu_s_a_step": cpu,
        "wall_s_a_step": 2 * cpu,
        "pass_cpu_s_a_step": cpu / 4,
    }


def test_speed_shows_medians_and_trl_over_ours(module):
    speed = module("speed")
    runs = [seconds("model", "plaudit", cpu) for cpu in (1.0, 9.0, 2.0)]
    runs += [seconds("model", "trl", cpu) for cpu in (5.0, 6.0, 70.0)]
    (line,) = speed.summarise(runs)
    assert line["plaudit"]["cpu_s_a_step"] == 2.0
    assert line["trl_over_plaudit"] == {"cpu_s_a_step": 3.0, "wall_s_a_step": 3.0, "pass_cpu_s_a_step": 3.0}
    (row,) = speed.table_rows([line])
    assert len(row) == len(speed.HEADS)
    assert row[1:] == ["2.000", "6.000", "–", "3.00", "3.00", "0.500", "1.500", "3.00", "2.0, pass 2.5"]


def test_memory_and_growth_are_tables_and_a_picture(module, tmp_path):
    peaks = [
        {"engine": engine, "vocabulary": 32_000, "completion": 256, "peak_mb": peak}
        for engine, peak in (("plaudit", 300.0), ("trl", 1500.0))
    ]
    assert module("memory").table_rows(peaks) == [["V = 32,000, C = 256", "300", "1,500", "5.00"]]
    scaling = module("scaling")
    points = [
        {"axis": "rewards", "value": 4, "engine": engine, "cpu_s_a_step": cpu}
        for engine, cpu in (("plaudit", 0.1), ("trl", 0.3))
    ]
    rows = scaling.table_rows(points)
    assert rows == [["rewards = 4", "0.100", "0.300", "3.00"]]
    assert scaling.points_of(rows) == points
    scaling.draw(points, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000


def test_a_section_of_the_page_is_replaced_and_nothing_else(module, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- speed -->\nold\n<!-- end speed -->\nafter\n")
    sections = module("sections")
    sections.write_section("speed", "new", page)
    assert page.read_text() == "before\n<!-- speed -->\nnew\n<!-- end speed -->\nafter\n"
    with pytest.raises(ValueError, match="no section memory"):
        sections.write_section("memory", "new", page)
    whole = sections.PAGE.read_text()
    assert all(
        f"<!-- {name} -->" in whole and f"<!-- end {name} -->" in whole for name in ("speed", "memory", "scaling")
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("competitor", ["plaudit", "trl", "trl-defaults"])
def test_forced_lengths_are_the_same_in_all_engines(competitor):
    changes = {"vocabulary": 100, "hidden": 32, "layers": 2, "prompt": 8, "completion": 12, "steps": 1}
    changes["lengths"] = [12, 1, 2, 3, 4, 5, 6, 7]
    found = run("speed_run.py", "mixed", competitor, f"--change={json.dumps(changes)}")
    assert found["mean_length"] == 5.0
    assert found["cpu_s_a_step"] > found["pass_cpu_s_a_step"] > 0


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_pass_needs_less_memory_than_trls():
    sizes = ["--vocabulary=8000", "--completion=128", "--hidden=64"]
    ours, theirs = (run("memory_run.py", engine, *sizes)["peak_mb"] for engine in ("plaudit", "trl"))
    assert 1 < ours < theirs


def run(script, *words):
    """The line of JSON that a benchmark prints."""
    done = subprocess.run([sys.executable, BENCHMARKS / script, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_parity_shows_the_worst_of_what_a_line_holds(module):
    parity = module("parity")
    first = [name for name in parity.product() if name.startswith("grpo-sum_then_normalize-group-token-")]
    runs = {name: parity.Distance(1e-7, place * 1e-6, 0.0, "kl", 2e-8) for place, name in enumerate(first, 1)}
    line = parity.product_table(runs).splitlines()[-1]
    assert line == "| grpo | sum_then_normalize | group | token | 4 | 1.0e-07 | 4.0e-06 | 0.0e+00 | 2.0e-08 |"
