"""Policies with quantised weights, which train through an adapter (QLoRA, arXiv 2305.14314)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import torch

from ...errors import UsageError
from .models import is_adapted

_BITSANDBYTES_OPTIMIZERS = ("8bit", "bnb")


def model_options(args: Any, model: Any, quantization_config: Any) -> dict[str, Any]:
    """What from_pretrained is given: `model_init_kwargs`, with the trainer's `quantization_config`.

    Raises UsageError when quantisation is asked for twice, or of a model that is loaded already, or when its library
    is missing.
    """
    options = dict(args.model_init_kwargs or {})
    if quantization_config is not None:
        if not isinstance(model, str):
            raise UsageError(
                "quantization_config applies to a model given as a path or id, but model is an object; load it "
                "quantised, or pass its path"
            )
        if "quantization_config" in options:
            raise UsageError("quantization_config is given to the trainer and in model_init_kwargs; keep the trainer's")
        options["quantization_config"] = quantization_config
    _check_library(options.get("quantization_config"))
    return options


def check_optimizer(args: Any) -> None:
    """Raise UsageError when the optimizer needs bitsandbytes and it is missing."""
    name = str(getattr(args.optim, "value", args.optim))
    if any(part in name for part in _BITSANDBYTES_OPTIMIZERS) and find_spec("bitsandbytes") is None:
        raise UsageError(f"optim={name!r} needs bitsandbytes; pip install bitsandbytes, or set optim='adamw_torch'")


def check_trainable(model: Any, peft_config: Any) -> None:
    """Raise UsageError on quantised weights without an adapter: they cannot be trained themselves."""
    if is_quantized(model) and peft_config is None and not is_adapted(model):
        raise UsageError(
            "the policy's weights are quantised and cannot be trained; give peft_config, e.g. peft.LoraConfig(...)"
        )


def prepare_quantized(model: Any) -> None:
    """The trainable weights around a quantised model in bfloat16, as QLoRA trains them; other models stay.

    DoRA's magnitudes stay too: their updates can be smaller than bfloat16 can tell.
    """
    if not is_quantized(model):
        return
    for module in model.modules():
        # On a CPU, 4-bit layers that run in eval mode are packed for inference for good, and give no gradient then.
        if hasattr(module, "support_avx512bf16_for_cpu"):
            module.support_avx512bf16_for_cpu = False
    for name, weight in model.named_parameters():
        if weight.requires_grad and "lora_magnitude_vector" not in name:
            weight.data = weight.data.to(torch.bfloat16)


def is_quantized(model: Any) -> bool:
    """Whether bitsandbytes holds the model's weights in 4 or 8 bits."""
    return bool(getattr(model, "is_loaded_in_4bit", False) or getattr(model, "is_loaded_in_8bit", False))


def _check_library(config: Any) -> None:
    read = config.get if isinstance(config, Mapping) else lambda name: getattr(config, name, None)
    if (read("load_in_4bit") or read("load_in_8bit")) and find_spec("bitsandbytes") is None:
        raise UsageError(
            "quantization_config asks for 4- or 8-bit weights, which need bitsandbytes (and, to be fast, a GPU); pip "
            "install bitsandbytes, or leave it out"
        )
