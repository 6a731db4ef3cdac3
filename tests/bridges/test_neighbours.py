"""Every bridge against the neighbour's own release: the tests in neighbours/, each in its own environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from make_neighbours import NEIGHBOURS, python_of

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbour(name):
    python = python_of(name)
    if not python.exists():
        pytest.skip(f"{name}: `make neighbours` makes its environment")
    tests = HERE / "neighbours" / f"check_{name}.py"
    command = [
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        tests.parent,
        "-c",
        os.devnull,
        tests,
    ]
    # `serving` and `scripted` lie beside the core's own tests.
    shared = [HERE.parents[1] / "core" / "tests" / name for name in ("bridges", "agents")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (tests.parent, *shared)))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=env, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
