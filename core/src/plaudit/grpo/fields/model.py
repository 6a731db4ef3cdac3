"""Fields about the model and how training starts."""

# ruff: noqa: RUF009  (option() only wraps dataclasses.field, which the rule does not see)
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .option import option


@dataclass
class ModelFields:
    """Model loading, and the Trainer's own fields whose default differs from transformers'."""

    learning_rate: float = option(1e-6, "Initial learning rate of the optimizer.")
    logging_steps: float = option(
        10, "Optimizer steps between two log lines; below 1 it is a share of all steps of the run."
    )
    bf16: bool | None = option(
        None,
        "Mixed precision in bfloat16. Unset: on where the accelerator computes bfloat16 natively and fp16 is not set, "
        "off elsewhere (on a CPU it is slower than float32).",
    )
    model_init_kwargs: dict[str, Any] | str | None = option(
        None, "Arguments for from_pretrained when the model is given as a path or hub name, as a dict or JSON."
    )
    trust_remote_code: bool = option(False, "Run code that comes with a model or tokenizer.")
    router_aux_loss_coef: float | None = option(
        None, "Weight of a mixture-of-experts model's load-balancing loss; None = the model's own."
    )
    disable_dropout: bool = option(False, "Set every dropout probability of the model to 0.")
    cast_lm_head_to_fp32: bool = option(False, "Compute the language-model head in float32.")
