"""How much memory a colocated run takes on a device: training, vLLM's weights, its KV cache. Sizes in bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from plaudit.errors import UsageError

GIB = 2**30
KV_BLOCK = 16  # tokens that vLLM allots together
BATCHED_TOKENS = 4096  # tokens that the engine computes at a time, see rollout/vllm/engine.py
ENGINE_FIXED = 1 * GIB  # CUDA graphs and workspaces
DEVICE_RESERVE = 0.05  # the driver, fragmentation
LAYER_BYTES = (
    34  # activations a token and hidden unit of one layer in 16 bit (arXiv 2205.05198, without attention maps)
)
LOGITS_AT_ONCE = 1 << 24  # see grpo/logprobs.py


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Of a decoder-only model. `parameters` and `trainable` are counts; `kv_heads` × `head_size` is one key."""

    parameters: int
    trainable: int
    layers: int
    hidden: int
    intermediate: int
    kv_heads: int
    head_size: int
    vocabulary: int


@dataclass(frozen=True, slots=True)
class RunSizes:
    """Of one device.

    `rollouts`: the device's share of a generation batch; `tokens`: longest prompt and completion together; `rows`: of a
    micro-batch. Bytes a number: `weight_bytes` as trained, `compute_bytes` in the forward pass and in vLLM.
    `state_bytes`: of the optimizer, for each trainable parameter. `frozen_copy`: a reference model is held beside the
    policy. `sleeps`: vLLM frees its memory while the policy trains.
    """

    rollouts: int
    tokens: int
    completion_tokens: int
    rows: int
    weight_bytes: int = 4
    compute_bytes: int = 2
    state_bytes: int = 8
    frozen_copy: bool = False
    checkpointing: bool = False
    tensor_parallel: int = 1
    sleeps: bool = False


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """`utilization`: vLLM's share of the device. `at_once`: rollouts whose KV cache fits into it. The rest in bytes."""

    utilization: float
    at_once: int
    training: int
    weights: int
    kv_cache: int
    overhead: int


def plan_memory(model: ModelSizes, run: RunSizes, *, device: int) -> MemoryPlan:
    """The least share that holds the KV cache of the whole generation batch, or as much as training leaves.

    `device`: its memory in bytes. Raises UsageError when not even one rollout fits beside training.
    """
    training, weights, overhead = training_bytes(model, run), engine_weights(model, run), engine_overhead(model, run)
    each = kv_bytes(model, run)
    room = math.floor((device * (1 - DEVICE_RESERVE) - training) / device * 100) / 100
    at_once = min(run.rollouts, int((room * device - weights - overhead) // each))
    if at_once < 1:
        needed = (training + weights + overhead + each) / (1 - DEVICE_RESERVE)
        raise UsageError(
            f"training ({training / GIB:.1f} GiB) and vLLM with one rollout ({(weights + overhead + each) / GIB:.1f} "
            f"GiB) need a device of {needed / GIB:.1f} GiB, but it has {device / GIB:.1f}: set "
            "vllm_enable_sleep_mode or gradient_checkpointing, train an adapter ([model.peft]), lower "
            "per_device_train_batch_size, or use vllm_mode='server' on other devices"
        )
    used = weights + overhead + each * at_once
    share = min(room, math.ceil(used / device * 100) / 100)
    return MemoryPlan(share, at_once, training, weights, each * at_once, overhead)


def training_bytes(model: ModelSizes, run: RunSizes) -> int:
    """What training holds while vLLM has its memory: all of it, or with sleep mode what stays between two steps."""
    held = model.parameters * run.weight_bytes * (2 if run.frozen_copy else 1) + model.trainable * run.state_bytes
    if run.sleeps:
        return held
    return held + model.trainable * run.weight_bytes + activation_bytes(model, run)


def activation_bytes(model: ModelSizes, run: RunSizes) -> int:
    """Of the forward and backward pass of a micro-batch, with three copies of a chunk of logits in float32."""
    layer = LAYER_BYTES * model.hidden * run.compute_bytes // 2
    kept = model.hidden * run.compute_bytes
    a_token = model.layers * kept + layer if run.checkpointing else model.layers * layer
    logits = min(LOGITS_AT_ONCE, run.rows * run.completion_tokens * model.vocabulary)
    return run.rows * run.tokens * a_token + 3 * 4 * logits


def engine_weights(model: ModelSizes, run: RunSizes) -> int:
    """vLLM's copy of the weights."""
    return -(-model.parameters * run.compute_bytes // run.tensor_parallel)


def kv_bytes(model: ModelSizes, run: RunSizes) -> int:
    """The KV cache of a rollout of full length. A tensor-parallel engine serves as many ranks as it is spread over."""
    blocks = -(-run.tokens // KV_BLOCK)
    return 2 * model.layers * model.kv_heads * model.head_size * run.compute_bytes * blocks * KV_BLOCK


def engine_overhead(model: ModelSizes, run: RunSizes) -> int:
    """Activations of the largest step, the logits of all rows with a copy, and what does not depend on size."""
    step = BATCHED_TOKENS * (4 * model.hidden + 2 * model.intermediate) * run.compute_bytes
    return ENGINE_FIXED + step + 2 * 4 * run.rollouts * run.tensor_parallel * model.vocabulary
