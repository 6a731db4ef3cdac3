"""Two gloo ranks give the advantages, losses and weights of one process; a rank that fails ends both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from rank_main import CASES, compare, dynamic
from side_by_side import differences

from runs import metrics_of

MAIN = Path(__file__).with_name("rank_main.py")


# Three interpreters at once take their time on a busy machine.
pytestmark = pytest.mark.timeout(900)


def start(output, ranks, *parts, main=MAIN):
    """Start `ranks` processes of one run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    world = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks)}
    return [
        subprocess.Popen(
            [sys.executable, str(main), str(output), *parts],
            env={**shared, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder with what this process ("one") and two ranks ("two") left behind."""
    folder = tmp_path_factory.mktemp("ranks")
    processes = start(folder / "two", 2)
    try:
        for case in CASES:
            compare(case, folder / "one")
        for generations in (4, 16):
            dynamic(folder / "one", generations)
        texts = [process.communicate(timeout=800)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode == 0, text[-3000:]
    return folder


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_equal_one(case, runs):
    alone = torch.load(runs / "one" / f"{case}_0.pt")
    first, second = (torch.load(runs / "two" / f"{case}_{rank}.pt") for rank in range(2))
    for one, two in zip(alone["logs"], first["logs"], strict=True):
        # With accumulation, ranks put other rows into a micro-batch, and these are means of its means.
        allowed = {"entropy", "kl"} if case == "grpo-reference" else set()
        assert differences(one, two).keys() <= allowed
    assert differences(alone["evaluation"], first["evaluation"]) == {}
    for name, value in alone["weights"].items():
        for other in (first, second):
            torch.testing.assert_close(other["weights"][name], value, rtol=1e-5, atol=1e-6)


def test_the_table_holds_the_rows_and_advantages_of_all_ranks(runs):
    one, two = (pq.read_table(runs / run / "dapo" / "completions" / "train_00002.parquet") for run in ("one", "two"))
    assert one.to_pydict() == two.to_pydict()
    assert one.num_rows == 8


def test_a_column_and_a_metric_that_one_rank_logs_reach_the_table_and_the_log(runs):
    table = pq.read_table(runs / "two" / "logging" / "completions" / "train_00002.parquet").to_pydict()
    assert table["note"] == [None] * 4 + ["rank 1"] * 4
    assert [line["noted"] for line in metrics_of(runs / "two" / "logging") if "noted" in line] == [3.0, 3.0]


def test_a_rank_whose_rows_are_all_idle_stays_in_step(runs):
    first, second = (torch.load(runs / "two" / f"idle_{rank}.pt") for rank in range(2))
    assert first["shapes"].count((1, 1)) == 2
    assert (1, 1) not in second["shapes"]
    for name, value in first["weights"].items():
        assert torch.equal(second["weights"][name], value), name
    logs = [line for line in metrics_of(runs / "two" / "idle") if "loss" in line]
    assert [line["skipped_rows"] for line in logs] == [0.5, 0.5]
    assert all(line["grad_norm"] > 0 and line["entropy"] > 0 for line in logs)


def test_a_rank_that_fails_ends_all_and_each_says_why(runs):
    found = [json.loads((runs / "two" / f"errors_{rank}.json").read_text()) for rank in range(2)]
    reward, generation, spanning = zip(*found, strict=True)
    assert "lost" in reward[1]
    assert reward[0].startswith(("RewardError", "PeerError"))
    assert generation[1].startswith("AttributeError")
    assert generation[0].startswith("PeerError: rank 1 failed")
    assert all("'spread' scores whole groups of num_generations (8)" in message for message in spanning)


@pytest.mark.parametrize("generations", [4, 16])
def test_dynamic_sampling_replaces_the_same_groups_on_two_ranks(generations, runs):
    alone = torch.load(runs / "one" / f"dynamic-{generations}_0.pt")
    steps = [later - earlier for earlier, later in pairwise(alone["starts"])]
    assert max(steps) > min(steps)  # some batches took more prompts than others
    for rank in range(2):
        other = torch.load(runs / "two" / f"dynamic-{generations}_{rank}.pt")
        assert other["starts"] == alone["starts"]
        for name, value in alone["weights"].items():
            torch.testing.assert_close(other["weights"][name], value, rtol=1e-5, atol=1e-6)
    one, two = (runs / run / f"dynamic-{generations}" / "completions" / "train_00004.parquet" for run in ("one", "two"))
    table = pq.read_table(one).to_pydict()
    assert table == pq.read_table(two).to_pydict()
    assert table["copy"] == table["prompt"]
