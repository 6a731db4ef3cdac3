"""From AITraining's parameters to the engine's configuration."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from plaudit.errors import PlauditError, UsageError

from .params import LLMTrainingParams

_SAME = {
    "rl_num_generations": "num_generations",
    "rl_max_new_tokens": "max_completion_length",
    "rl_temperature": "temperature",
    "rl_top_p": "top_p",
    "rl_top_k": "top_k",
    "rl_kl_coef": "beta",
    "rl_clip_range": "epsilon",
    "rl_loss_type": "loss_type",
    "rl_mask_truncated_completions": "mask_truncated_completions",
    "epochs": "num_train_epochs",
    "batch_size": "per_device_train_batch_size",
    "gradient_accumulation": "gradient_accumulation_steps",
    "lr": "learning_rate",
    "optimizer": "optim",
    "scheduler": "lr_scheduler_type",
    "weight_decay": "weight_decay",
    "max_grad_norm": "max_grad_norm",
    "seed": "seed",
    "ddp_timeout": "ddp_timeout",
    "save_strategy": "save_strategy",
    "save_steps": "save_steps",
    "save_total_limit": "save_total_limit",
    "log": "report_to",
    "push_to_hub": "push_to_hub",
    "token": "hub_token",
}
_VLLM = {
    "vllm_mode": "vllm_mode",
    "vllm_gpu_memory_utilization": "vllm_gpu_memory_utilization",
    "vllm_tensor_parallel_size": "vllm_tensor_parallel_size",
    "vllm_server_url": "vllm_server_base_url",
}


def make_config(params: LLMTrainingParams) -> Any:
    """The GRPOConfig of a run. Raises UsageError on values that clash or that transformers does not know."""
    from plaudit.grpo.config import GRPOConfig

    values: dict[str, Any] = {theirs: getattr(params, ours) for ours, theirs in _SAME.items()}
    values |= {
        "output_dir": params.project_name,
        "warmup_steps": params.warmup_ratio,  # below 1 it is a share of all steps
        "logging_steps": params.logging_steps if params.logging_steps > 0 else 0.05,
        "bf16": params.mixed_precision == "bf16",
        "fp16": params.mixed_precision == "fp16",
        "gradient_checkpointing": not params.disable_gradient_checkpointing,
        "log_completions": True,
        "disable_tqdm": True,
    }
    if params.attn_implementation:
        values["model_init_kwargs"] = {"attn_implementation": params.attn_implementation}
    if params.push_to_hub:
        values["hub_model_id"] = params.repo_id or f"{params.username}/{params.project_name}"
    if params.use_vllm:
        given = {theirs: getattr(params, ours) for ours, theirs in _VLLM.items()}
        values |= {"use_vllm": True, **{name: value for name, value in given.items() if value is not None}}
    with said_by_flags():
        return GRPOConfig(**values)


@contextmanager
def said_by_flags() -> Iterator[None]:
    """Errors of the engine become UsageErrors that say which flags the fields are that they name."""
    try:
        yield
    except (ValueError, TypeError, PlauditError) as error:
        raise UsageError(f"{error}{_by_flag(str(error))}") from error


def _by_flag(message: str) -> str:
    """Which flags the fields that a message names are."""
    named = {theirs: ours for ours, theirs in _SAME.items() if theirs != ours and re.search(rf"\b{theirs}\b", message)}
    told = [f"{theirs} is --{ours.replace('_', '-')}" for theirs, ours in named.items()]
    return f" ({', '.join(told)})" if told else ""


def make_adapter(params: LLMTrainingParams) -> Any:
    """The LoraConfig that the parameters ask for, or None."""
    if not params.peft:
        return None
    from plaudit.run.peft_config import make_peft_config

    modules: Any = params.target_modules
    if modules != "all-linear":
        modules = [name.strip() for name in modules.split(",") if name.strip()]
    return make_peft_config(
        {
            "r": params.lora_r,
            "lora_alpha": params.lora_alpha,
            "lora_dropout": params.lora_dropout,
            "target_modules": modules,
            "bias": "none",
        }
    )


def make_quantization(params: LLMTrainingParams) -> Any:
    """The BitsAndBytesConfig that the parameters ask for, or None."""
    if params.quantization is None:
        return None
    import torch
    from transformers import BitsAndBytesConfig

    if params.quantization == "int8":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)


def training_processes(params: LLMTrainingParams, gpus: int) -> int:
    """How many processes train: one a GPU, less those that a vLLM server on this machine uses.

    Raises UsageError when none would be left.
    """
    if gpus == 0:
        if params.use_vllm and params.vllm_mode == "server":
            warnings.warn("no GPU is visible, so --vllm-server-gpus takes none off", stacklevel=2)
        return 1
    serving = params.vllm_server_gpus if params.use_vllm and params.vllm_mode == "server" else 0
    if serving >= gpus:
        raise UsageError(
            f"--vllm-server-gpus {serving} leaves none of {gpus} GPUs for training; lower it, or make more visible"
        )
    return gpus - serving
