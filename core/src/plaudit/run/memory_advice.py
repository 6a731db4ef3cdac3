"""Running out of memory, as an error that says what to lower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plaudit.errors import PlauditError

SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_failed", "not enough memory")
"""What drivers and allocators say, in lower case; not all of them raise an error of its own kind."""


@contextmanager
def memory_advice(config: Any, *, peft: bool = False) -> Iterator[None]:
    """Turn an out-of-memory error into a PlauditError. `config`: of the run. `peft`: whether it trains an adapter."""
    import torch

    try:
        yield
    except PlauditError:
        raise
    except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not isinstance(error, torch.OutOfMemoryError) and not _says_so(error):
            raise
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        advice = "; ".join(what_to_lower(config, peft=peft))
        raise PlauditError(f"out of memory: {first}. In this order: {advice}") from error


def what_to_lower(config: Any, *, peft: bool) -> list[str]:
    """What still can be lowered, the cheapest first."""
    batch, found = config.per_device_train_batch_size, []
    if batch > 1:
        found.append(f"lower config.per_device_train_batch_size ({batch}), raise gradient_accumulation_steps as much")
    if not config.gradient_checkpointing:
        found.append("set gradient_checkpointing = true")
    if config.use_vllm and config.vllm_mode == "colocate":
        found.append(f"lower vllm_gpu_memory_utilization ({config.vllm_gpu_memory_utilization})")
    found.append(f"lower max_completion_length ({config.max_completion_length})")
    if not peft:
        found.append("train a LoRA adapter ([model.peft])")
    return [*found, f"lower num_generations ({config.num_generations})"]


def _says_so(error: Exception) -> bool:
    text = str(error).lower()
    return any(sign in text for sign in SIGNS)
