"""`plaudit vllm estimate RUN.toml`: the share of a device's memory that vLLM should take beside the run."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.run.vllm_memory import GIB, ModelSizes, RunSizes, plan_memory

if TYPE_CHECKING:
    from plaudit.run.preflight import Prepared

HELP = "recommend vllm_gpu_memory_utilization for a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `plaudit vllm estimate`."""
    parser.add_argument("run_file", metavar="RUN.toml", help="the run file")
    parser.add_argument(
        "--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE", help="as for plaudit train"
    )
    parser.add_argument(
        "--device-gb", type=float, metavar="GIB", help="the device's memory in GiB (by default, of the first GPU here)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the recommendation and what it is made of."""
    from plaudit.cli._table import print_table
    from plaudit.run.launch import quiet_libraries
    from plaudit.run.preflight import prepare_run
    from plaudit.run.runfile import load_run_file

    run_file, device = load_run_file(args.run_file, args.assignments), device_bytes(args.device_gb)
    with quiet_libraries():
        prepared = prepare_run(run_file)
        model, sizes = model_sizes(prepared), run_sizes(prepared)
    plan = plan_memory(model, sizes, device=device)
    rows = [
        ("training", plan.training, "weights, gradients, optimizer, activations of a micro-batch"),
        ("vLLM: weights", plan.weights, f"{model.parameters:,} parameters"),
        ("vLLM: KV cache", plan.kv_cache, f"{plan.at_once} of {sizes.rollouts} rollouts, {sizes.tokens} tokens each"),
        ("vLLM: rest", plan.overhead, "activations, logits, CUDA graphs"),
        ("device", device, ""),
    ]
    print_table(("part", "GiB", "of"), [(name, f"{size / GIB:.2f}", what) for name, size, what in rows])
    print(f"\nvllm_gpu_memory_utilization = {plan.utilization:.2f}")
    if plan.at_once < sizes.rollouts:
        print(f"training leaves no more: vLLM will write {plan.at_once} of {sizes.rollouts} rollouts at a time")
    return 0


def device_bytes(gib: float | None) -> int:
    """The memory given, or that of the first GPU. Raises UsageError where there is neither."""
    import torch

    if gib is not None:
        if not 0 < gib < math.inf:
            raise UsageError(f"--device-gb {gib:g}: expected the device's memory in GiB, e.g. --device-gb 80")
        return int(gib * GIB)
    if not torch.cuda.is_available():
        raise UsageError("there is no GPU here to measure; give its memory, e.g. --device-gb 80")
    return int(torch.cuda.get_device_properties(0).total_memory)


def model_sizes(prepared: Prepared) -> ModelSizes:
    """Counted on the model without its weights, with the adapter that will be trained."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    trust = bool(prepared.config.trust_remote_code)
    chosen = {"gguf_file": name} if (name := prepared.run.model.model_init_kwargs.get("gguf_file")) else {}
    config = AutoConfig.from_pretrained(prepared.model.path, trust_remote_code=trust, **chosen)
    with torch.device("meta"):
        kind = AutoModelForCausalLM if prepared.model.processor is None else AutoModelForImageTextToText
        model = kind.from_config(config, trust_remote_code=trust)
        count = sum(parameter.numel() for parameter in model.parameters())
        trainable = count if prepared.peft_config is None else _adapter_size(model, prepared.peft_config)
    text = config.get_text_config()
    heads = text.num_attention_heads
    return ModelSizes(
        parameters=count,
        trainable=trainable,
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
        kv_heads=getattr(text, "num_key_value_heads", None) or heads,
        head_size=getattr(text, "head_dim", None) or text.hidden_size // heads,
        vocabulary=text.vocab_size,
    )


def run_sizes(prepared: Prepared) -> RunSizes:
    """The sizes of the run on one device."""
    config = prepared.config
    weight = _bytes(prepared.run.model.model_init_kwargs.get("dtype", "float32"))
    steps = config.steps_per_generation
    return RunSizes(
        rollouts=config.per_device_train_batch_size * steps,
        tokens=prepared.lengths.longest + config.max_completion_length,
        completion_tokens=config.max_completion_length,
        rows=config.per_device_train_batch_size,
        weight_bytes=weight,
        compute_bytes=2 if config.bf16 or config.fp16 else weight,
        state_bytes=2 if "8bit" in str(config.optim) else 2 * weight,
        frozen_copy=bool(config.beta) and prepared.peft_config is None,
        checkpointing=config.gradient_checkpointing,
        tensor_parallel=config.vllm_tensor_parallel_size,
        sleeps=config.vllm_enable_sleep_mode,
    )


def _adapter_size(model: Any, peft_config: Any) -> int:
    from peft import get_peft_model

    adapted = get_peft_model(model, peft_config)
    return sum(parameter.numel() for parameter in adapted.parameters() if parameter.requires_grad)


def _bytes(dtype: Any) -> int:
    return 2 if str(dtype).removeprefix("torch.") in ("bfloat16", "float16", "auto") else 4
