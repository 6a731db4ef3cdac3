"""`plaudit vllm estimate`: the memory plan, beside figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plaudit.cli import main
from plaudit.errors import UsageError
from plaudit.run.vllm_memory import GIB, ModelSizes, RunSizes, kv_bytes, plan_memory, training_bytes

# Qwen2.5-7B: 28 layers, 4 key-value heads of 128.
SEVEN_B = ModelSizes(7_615_616_512, 7_615_616_512, 28, 3584, 18944, 4, 128, 152_064)
RUN = RunSizes(rollouts=128, tokens=2000, completion_tokens=1024, rows=1, checkpointing=True)
LORA = replace(SEVEN_B, trainable=40_370_176)


def test_a_rollout_of_the_published_size():
    # 56 KiB a token in 16 bit (2 x 28 x 4 x 128 x 2 bytes), in blocks of 16 tokens
    assert kv_bytes(SEVEN_B, RUN) == 57_344 * 2000
    assert kv_bytes(SEVEN_B, replace(RUN, tokens=2001)) == 57_344 * 2016


def test_training_is_sixteen_bytes_a_parameter_in_float32_and_four_for_a_frozen_one():
    held = training_bytes(SEVEN_B, RUN) - training_bytes(replace(SEVEN_B, parameters=0, trainable=0), RUN)
    assert held == 16 * SEVEN_B.parameters
    sleeping = replace(RUN, sleeps=True)
    assert training_bytes(SEVEN_B, sleeping) == 12 * SEVEN_B.parameters
    with_reference = training_bytes(SEVEN_B, replace(sleeping, frozen_copy=True))
    assert with_reference - training_bytes(SEVEN_B, sleeping) == 4 * SEVEN_B.parameters
    # An adapter: only its own weights have gradients and optimizer states.
    assert training_bytes(LORA, sleeping) == 4 * LORA.parameters + 8 * LORA.trainable


def test_the_share_holds_the_whole_batch_where_there_is_room():
    run = replace(RUN, weight_bytes=2, state_bytes=4)
    plan = plan_memory(LORA, run, device=80 * GIB)
    assert plan.at_once == 128
    assert plan.kv_cache == 128 * 2000 * 57_344
    needed = plan.weights + plan.kv_cache + plan.overhead
    assert needed <= plan.utilization * 80 * GIB < needed + 0.011 * 80 * GIB
    assert plan.training + plan.utilization * 80 * GIB <= 0.96 * 80 * GIB


def test_a_smaller_device_takes_turns_and_a_tiny_one_is_refused():
    run = replace(RUN, weight_bytes=2, state_bytes=4)
    plan = plan_memory(LORA, run, device=40 * GIB)
    assert 1 <= plan.at_once < 128
    assert plan.training + plan.utilization * 40 * GIB <= 40 * GIB
    with pytest.raises(UsageError, match=r"need a device of .* GiB, but it has 24\.0: set vllm_enable_sleep_mode"):
        plan_memory(LORA, run, device=24 * GIB)


@pytest.mark.parametrize(
    ("change", "smaller"),
    [({"sleeps": True}, "training"), ({"checkpointing": False}, None), ({"tensor_parallel": 2}, "weights")],
)
def test_each_choice_moves_its_part(change, smaller):
    run = replace(RUN, weight_bytes=2, state_bytes=4, rows=4)
    before, after = (plan_memory(LORA, one, device=180 * GIB) for one in (run, replace(run, **change)))
    if smaller:
        assert getattr(after, smaller) < getattr(before, smaller)
    else:
        assert after.training > before.training


RUN_FILE = """
output_dir = "{folder}"
[model]
path = "quickstart"
[data]
name = "quickstart:addition"
[[reward]]
name = "addition"
[config]
num_generations = 8
per_device_train_batch_size = 32
max_completion_length = 40
use_cpu = true
"""


@pytest.fixture
def run_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(RUN_FILE.format(folder=tmp_path / "run"))
    return str(path)


def test_the_command_recommends_a_share(run_file, capsys):
    assert main(["vllm", "estimate", run_file, "--device-gb", "8"]) == 0
    printed = capsys.readouterr().out
    assert "150,144 parameters" in printed
    assert "32 of 32 rollouts, 48 tokens each" in printed
    assert "vllm_gpu_memory_utilization = 0.13" in printed


def test_an_adapter_trains_less(run_file, capsys):
    lora = ["--set", 'model.peft={r=8, target_modules=["q_proj"]}', "--set", "config.per_device_train_batch_size=8"]
    assert main(["vllm", "estimate", run_file, "--device-gb", "8", *lora]) == 0
    assert "vllm_gpu_memory_utilization" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("size", "message"),
    [(wrong, "expected the device's memory in GiB") for wrong in ("0", "nan", "inf")] + [("0.5", "need a device of 1")],
)
def test_impossible_devices(run_file, size, message, capsys):
    assert main(["vllm", "estimate", run_file, "--device-gb", size]) == 2
    assert message in capsys.readouterr().err
