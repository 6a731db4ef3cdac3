"""The benchmark of learning: its arithmetic, and one short run of it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "learning.py"


@pytest.fixture(scope="module")
def learning():
    spec = importlib.util.spec_from_file_location("plaudit_benchmark_learning", BENCHMARK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(engine, seed, sampled, cpu_s):
    after = {"greedy": sampled, "sampled": sampled}
    return {"engine": engine, "seed": seed, "after": after, "cpu_s_a_step": cpu_s, "wall_s_a_step": cpu_s}


def test_summary(learning):
    ours = [report("plaudit", seed, sampled, cpu_s) for seed, sampled, cpu_s in ((0, 0.9, 1.0), (1, 1.0, 2.0))]
    peers = [report("trl", seed, 0.8, cpu_s) for seed, cpu_s in ((1, 3.0), (0, 3.0))]
    summary = learning.summarise([*ours, *peers])
    assert summary["medians"]["plaudit"]["sampled"] == pytest.approx(0.95)
    assert summary["trl_over_plaudit"]["cpu_s_a_step"] == pytest.approx(2.0)
    assert sorted(summary["trl_over_plaudit"]["by_seed"]) == pytest.approx([1.5, 3.0])


@pytest.mark.slow
@pytest.mark.peer
def test_two_steps_of_each_engine(tmp_path):
    pytest.importorskip("trl")
    file = tmp_path / "learning.json"
    words = ["--peer=trl", "--seeds=3", "--steps=2", "--prompts=2", "--rows=16", "--check-every=1", f"--json={file}"]
    done = subprocess.run([sys.executable, BENCHMARK, *words], capture_output=True, text=True, check=True)
    found = json.loads(file.read_text())
    assert "trl over plaudit" in done.stdout
    assert [run["engine"] for run in found["runs"]] == ["plaudit", "trl"]
    assert all(list(run["sampled_by_step"]) == ["1", "2"] for run in found["runs"])
