"""What goes wrong or differs on some ranks only; streams, checkpoints and FSDP2 on several; four ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from rank_main import CASES, compare
from side_by_side import differences
from test_ranks import start

from runs import ROWS

MAIN = Path(__file__).with_name("many_ranks_main.py")
PARTS = ("slow", "streaming", "resuming", "failing_save", "failing_loss")

pytestmark = pytest.mark.timeout(900)


def run_ranks(folder, ranks, *parts, main=MAIN):
    """Run these parts on `ranks` processes, which must all end well; then every rank's answers by part."""
    processes = start(folder, ranks, *parts, main=main)
    try:
        texts = [process.communicate(timeout=800)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, text in zip(processes, texts, strict=True):
        assert process.returncode == 0, text[-3000:]
    return {
        part: [json.loads((folder / f"{part}_{rank}.json").read_text()) for rank in range(ranks)]
        for part in parts
        if part not in CASES
    }


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return run_ranks(tmp_path_factory.mktemp("two"), 2, *PARTS)


def test_a_rank_whose_rewards_are_slow_is_waited_for(two):
    first, second = two["slow"]
    assert first == second
    assert len(first) == 2


@pytest.mark.peer
def test_ranks_share_a_stream_in_consecutive_parts_in_the_order_of_trl(two):
    from datasets import Dataset
    from trl.trainer.utils import repeat_iterable_dataset

    stream = Dataset.from_list(ROWS[:9]).to_iterable_dataset().shuffle(seed=42)
    theirs = repeat_iterable_dataset(stream, mini_repeat_count=4, batch_size=2, repeat_count=1)
    expected = []
    for epoch in range(2):
        theirs.set_epoch(epoch)
        expected += [row["prompt"] for row in theirs]
    together = [prompt for batch in zip(*two["streaming"], strict=True) for part in batch for prompt in part]
    assert together == expected[: len(together)]
    assert len(together) == 6 * 8


def test_two_ranks_resume_in_the_middle_of_a_cycle(two):
    assert all(all(same) for same in two["resuming"])


def test_a_rank_that_cannot_save_ends_all(two):
    failed, other = two["failing_save"]
    assert failed.startswith("CheckpointError")
    assert other.startswith("PeerError: rank 0 failed")
    assert "No space left on device" in failed
    assert "No space left on device" in other


def test_a_rank_that_fails_in_the_loss_is_named_by_the_one_that_waits_in_backward(two):
    waiting, failed = two["failing_loss"]
    assert failed == "AttributeError: the loss was lost"
    assert waiting.startswith("PeerError: rank 1 failed, and the others cannot go on without it: AttributeError: the")


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """What a single process leaves of every case."""
    folder = tmp_path_factory.mktemp("one")
    for case in CASES:
        compare(case, folder)
    return folder


@pytest.mark.slow
def test_four_ranks_equal_one(one, tmp_path):
    run_ranks(tmp_path, 4, *CASES)
    for case in CASES:
        assert_equal_to_one(case, one, tmp_path, 4)


@pytest.mark.slow
def test_fsdp_on_two_ranks_equals_one_process_and_resumes(one, tmp_path):
    first, second = run_ranks(tmp_path, 2, "sharded")["sharded"]
    assert_equal_to_one("grpo-reference", one, tmp_path, 2)
    assert first["kind"].startswith("FSDP")
    assert all(first["same"])
    assert first == second
    assert first["previewed"] == 2
    assert len(first["in step"]) == 2


@pytest.fixture
def deepspeed(monkeypatch):
    pytest.importorskip("deepspeed")
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["", "_following"])
def test_zero_3_on_two_ranks_equals_ddp(what, deepspeed, tmp_path):
    """With weights made whole for generation, and with weights that stay spread and a reference that follows them."""
    part = f"plain{what}"
    ddp = run_ranks(tmp_path / "ddp", 2, part)[part]
    zero = run_ranks(tmp_path / "zero", 2, f"zero3{what}")[f"zero3{what}"]
    for one, other in zip(ddp, zero, strict=True):
        torch.testing.assert_close(torch.tensor(one), torch.tensor(other), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_zero_3_resumes_in_the_middle_of_a_cycle(deepspeed, tmp_path):
    first, second = run_ranks(tmp_path, 2, "zero3_resumed")["zero3_resumed"]
    assert all(first["same"])
    assert first == second
    assert first["previewed"] == 2


def assert_equal_to_one(case, one, folder, ranks):
    alone = torch.load(one / f"{case}_0.pt")
    several = [torch.load(folder / f"{case}_{rank}.pt") for rank in range(ranks)]
    for log, other in zip(alone["logs"], several[0]["logs"], strict=True):
        # With accumulation, ranks put other rows into a micro-batch, and these are means of its means.
        allowed = {"entropy", "kl"} if case == "grpo-reference" else set()
        assert differences(log, other).keys() <= allowed
    assert differences(alone["evaluation"], several[0]["evaluation"]) == {}
    for name, value in alone["weights"].items():
        for other in several:
            torch.testing.assert_close(other["weights"][name], value, rtol=1e-5, atol=1e-6)
