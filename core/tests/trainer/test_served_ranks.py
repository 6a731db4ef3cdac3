"""Two ranks and two vLLM servers (stand-ins): each rank asks for its own, the first sends the weights."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest
import torch

sys.path.append(str(Path(__file__).parents[1] / "rollout"))
from fake_vllm import FakeVLLM, close_all
from test_ranks import start

pytestmark = pytest.mark.timeout(600)

MAIN = Path(__file__).parent / "served_main.py"


@pytest.mark.parametrize("staleness", [0, 1])
def test_two_ranks_share_two_servers(staleness, tmp_path):
    servers = [FakeVLLM(), FakeVLLM()]
    try:
        urls = ",".join(server.url for server in servers)
        ranks = start(tmp_path, 2, urls, str(staleness), main=MAIN)
        for rank in ranks:
            output, _ = rank.communicate(timeout=200)
            assert rank.returncode == 0, output[-3000:]
        first, second = (torch.load(tmp_path / f"weights_{rank}.pt") for rank in range(2))
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
        bodies = [body for server in servers for body in server.bodies]
        assert len(bodies) == 3 * 8
        assert len({body["seed"] for body in bodies}) == 3 * 8
        for server in servers:
            versions = [body["weight_version"] for path, _, body in server.calls if path == "finish_weight_update"]
            # With one batch ahead the last policy writes nothing.
            assert len(versions) == 3 - staleness
            assert [path for path, *_ in server.calls].count("init_weight_transfer_engine") == 1
    finally:
        close_all(servers)


@pytest.mark.parametrize("sharded", [False, True])
def test_a_restart_beside_training_is_given_the_weights_at_once(sharded, tmp_path):
    """The second batch is held until the server is gone; it comes back without weights, and no rank asks for long."""
    server = FakeVLLM()
    server.answer_s = lambda prompt: 600 if len(server.bodies) > 8 and server.instances == 1 else 0.0

    def restart():
        while len(server.bodies) < 16:
            time.sleep(0.05)
        server.restart()

    threading.Thread(target=restart, daemon=True).start()
    try:
        ranks = start(tmp_path, 2, server.url, "1", *(["sharded"] if sharded else []), main=MAIN)
        for rank in ranks:
            output, _ = rank.communicate(timeout=400)
            assert rank.returncode == 0, output[-3000:]
        assert server.instances == 2
        assert len(server.bodies) == 3 * 8 + 8  # the held ones were asked again
        first, second = (torch.load(tmp_path / f"weights_{rank}.pt") for rank in range(2))
        assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    finally:
        close_all([server])
