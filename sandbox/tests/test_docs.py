"""Every Python block of the pages about sandboxes runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in ("docs/sandboxes.md", "sandbox/README.md")
    if (ROOT / page).exists()
    for number, block in enumerate(re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), re.M | re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_blocks_run(block: str) -> None:
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, timeout=120)
    if "SandboxRefused" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 6
