"""The golden vectors, through the command that checks any file of their format."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VECTORS = json.loads((ROOT / "core/tests/data/golden.json").read_text())


@pytest.fixture(scope="module")
def golden():
    spec = importlib.util.spec_from_file_location("plaudit_benchmark_golden", ROOT / "benchmarks/golden.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("place", range(len(VECTORS["advantages"])))
def test_advantages(golden, place):
    values, metrics = golden.advantage_errors(VECTORS["advantages"][place])
    assert values <= 1e-5
    assert metrics <= 1e-5


@pytest.mark.parametrize("place", range(len(VECTORS["losses"])))
def test_losses(golden, place):
    errors = golden.loss_errors(VECTORS["losses"][place])
    assert errors.loss <= 1e-9
    assert errors.grad <= 1e-9
    assert errors.metric <= 1e-5


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        (1.0, 2.0, 0.5),
        (1e-3, 0.0, 1.0),
        (math.nan, None, 0.0),
        (1.0, None, math.inf),
        (math.nan, 1.0, math.inf),
    ],
)
def test_error_measure(golden, found, expected, error):
    assert golden.error(found, expected, 1e-3) == error


def test_command_sees_a_wrong_vector(tmp_path):
    case = VECTORS["losses"][0]
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"advantages": [], "losses": [{**case, "loss": case["loss"] * 2}]}))
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/golden.py", file], capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert report["advantages"]["n"] == 0
    assert report["losses"]["n"] == 1
    assert report["losses"]["worst_loss"] == pytest.approx(0.5)
    assert report["losses"]["worst_grad"] <= 1e-9
