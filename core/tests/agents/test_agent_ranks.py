"""Two gloo ranks whose rollouts have different numbers of rounds: none waits for ever, metrics are those of both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each rank found: with a generator of its own, with a shared one, and when one of them fails."""
    folder = tmp_path_factory.mktemp("agents")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    shared = {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("agent_rank_main.py")), str(folder)],
            env={**os.environ, **shared, "LOCAL_WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        texts = [process.communicate(timeout=500)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode == 0, text[-3000:]
    return [json.loads((folder / f"agents_{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("at", "name", "called"), [(0, "Game", 1.5), (3, "Talker", None)])
def test_rounds_may_differ_between_ranks(found, shared, at, name, called):
    first, second = (rank[at + int(shared)] for rank in found)
    assert first["rounds"] == [[0, 1, 2, 3]] * 4 * 2
    assert second["rounds"] == ([[0, 1, 2, 3], [], [], []] * 2 if shared else [[0, 1, 2, 3]] * 2)
    assert first["logs"] == second["logs"]
    assert [log["tools/call_frequency"] for log in first["logs"]] == [called] * 2
    assert [log[f"rewards/{name}/mean"] for log in first["logs"]] == [0.5, 0.5]


def test_a_group_over_two_ranks_has_one_seed(found):
    first, second = (rank[0]["seeds"] for rank in found)
    assert first == second
    assert all(seeds == first[0] for seeds in first)
    assert len(set(first[0])) == len(first[0]) == 2


def test_a_rank_that_fails_in_a_round_ends_the_other(found):
    assert found[0][2].startswith("KeyError")
    assert found[1][2].startswith("PeerError: rank 0 failed")
