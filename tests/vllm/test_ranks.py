"""Two processes: an engine each, and one engine over both."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
MAIN = Path(__file__).with_name("rank_main.py")


@pytest.mark.parametrize("tensor_parallel", [1, 2])
def test_two_ranks(tensor_parallel, tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone", str(MAIN)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [*command, str(tmp_path), str(tensor_parallel)], env=environment, capture_output=True, text=True, timeout=1500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["same_weights"]
    assert len(found["logs"]) == 3
    for entry in found["logs"]:
        assert entry["sampling/sampling_logp_difference/max"] < 1e-3
    first, second = found["written"]
    assert sorted(index for index, _ in first) == sorted(list(range(4)) * 3)
    assert first != second
