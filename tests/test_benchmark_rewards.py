"""benchmarks/rewards.py runs, and its figures without the peer hold their bars with room to spare."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "rewards.py"


@pytest.mark.slow
def test_the_quick_scenarios(tmp_path):
    pytest.importorskip("plaudit_math")
    file = tmp_path / "rewards.json"
    words = ["--only=four,environments,hostile", "--repeat=1", f"--json={file}"]
    subprocess.run([sys.executable, BENCHMARK, *words], capture_output=True, text=True, check=True)
    found = json.loads(file.read_text())
    assert found["four"]["plaudit_s"] < 1.2  # one after another they would take 1.6 s
    assert found["environments"]["plaudit_s"] < 0.6  # and these 0.8 s
    assert found["hostile"]["processes_left"] == found["hostile"]["threads_left"] == 0
