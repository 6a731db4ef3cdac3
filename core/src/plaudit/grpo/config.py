"""GRPOConfig: TRL 1.16's 79 fields on top of transformers.TrainingArguments."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from transformers import TrainingArguments

from .checking.checks import check_batches, check_config, check_names, resolve_aliases
from .checking.types import check_types
from .fields import GenerationFields, LoggingFields, LossFields, ModelFields, VLLMFields


@dataclass
class GRPOConfig(LoggingFields, LossFields, VLLMFields, GenerationFields, ModelFields, TrainingArguments):
    """Everything about a GRPO run but the model, the data and the rewards.

    Names and defaults are TRL's but two: `bf16` is on only where the hardware has it, and gradient checkpointing is off
    unless it is asked for. Each field is documented by its help (`plaudit train --help-config`, or dataclass metadata).
    After construction `generation_batch_size` and `steps_per_generation` are both set and `scale_rewards` is a name.
    Raises ConfigError on values that cannot work, naming the field, the value and what to do.
    """

    _VALID_DICT_FIELDS = [  # noqa: RUF012 (transformers reads this name off the class)
        *TrainingArguments._VALID_DICT_FIELDS,
        "model_init_kwargs",
        "transformers_continuous_batching_config",
        "generation_kwargs",
        "chat_template_kwargs",
        "task_max_completion_length",
    ]

    def __new__(cls, *args: Any, **values: Any) -> GRPOConfig:
        """Refuse names that are no field, with the one that was probably meant."""
        check_names(values, cls.__dataclass_fields__)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        """Fill in what depends on the hardware and on other fields, and check the whole."""
        if self.bf16 is None:
            self.bf16 = not self.fp16 and not self.use_cpu and hardware_has_bf16()
        check_types(self)
        super().__post_init__()
        resolve_aliases(self)
        check_batches(self)
        for message in check_config(self):
            warnings.warn(message, stacklevel=3)


def hardware_has_bf16() -> bool:
    """Whether an accelerator is there that computes bfloat16 itself, not by emulation."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return any(hasattr(torch, kind) and getattr(torch, kind).is_available() for kind in ("xpu", "npu"))
