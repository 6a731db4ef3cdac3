"""Running out of memory: known in all the ways in which it is said, and what can be lowered."""

from __future__ import annotations

import pytest
import torch
from plaudit.errors import PlauditError, UsageError
from plaudit.grpo.config import GRPOConfig
from plaudit.run.memory_advice import memory_advice, what_to_lower

MEMORY = [
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB\nmore"), "CUDA out of memory"),
    (MemoryError(), "MemoryError"),
    (RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"), "alloc_cpu"),
    (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), "CUBLAS"),
]


@pytest.mark.parametrize(("error", "says"), MEMORY)
def test_out_of_memory_says_what_to_lower(error, says):
    config = GRPOConfig(per_device_train_batch_size=8, max_completion_length=512, use_cpu=True)
    with pytest.raises(PlauditError, match=rf"out of memory: .*{says}") as raised, memory_advice(config):
        raise error
    assert str(raised.value).index("per_device_train_batch_size (8)") < str(raised.value).index("num_generations (8)")
    for advice in ("gradient_checkpointing = true", "max_completion_length (512)", "[model.peft]"):
        assert advice in str(raised.value)
    assert "vllm" not in str(raised.value)


def test_advice_leaves_out_what_is_done():
    config = GRPOConfig(per_device_train_batch_size=1, num_generations=2, gradient_accumulation_steps=2,
                        gradient_checkpointing=True, max_completion_length=256, use_cpu=True)  # fmt: skip
    said = "; ".join(what_to_lower(config, peft=True))
    assert said == "lower max_completion_length (256); lower num_generations (2)"


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), UsageError("out of memory"), ValueError("x")])
def test_other_errors_stay_as_they_are(error):
    with pytest.raises(type(error)) as raised, memory_advice(GRPOConfig(use_cpu=True)):
        raise error
    assert raised.value is error


def test_a_real_allocation_that_fails_is_known():
    with pytest.raises(PlauditError, match="out of memory"), memory_advice(GRPOConfig(use_cpu=True)):
        torch.empty(2**50)
