"""A language-model head in float32 on a model in half precision: `cast_lm_head_to_fp32` (ScaleRL, arXiv 2510.13786)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UsageError


class Float32Head(nn.Linear):
    """A linear head that computes in float32 whatever it is given, outside autocast."""

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: (…, H) of any dtype. Returns (…, V) in float32."""
        with torch.autocast(hidden.device.type, enabled=False):
            return nn.functional.linear(hidden.float(), self.weight, self.bias)


def cast_head(model: Any) -> None:
    """Turn the model's head into a `Float32Head`, in place.

    Raises UsageError when the head shares its weight with the embeddings, which would become float32 with it, or is
    not a plain linear layer (it is quantised, or carries an adapter).
    """
    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if type(head) is not nn.Linear:
        raise UsageError(
            f"cast_lm_head_to_fp32: the head is a {type(head).__name__}, not a plain linear layer; take it out of the "
            "adapter's target_modules and of quantisation, or set cast_lm_head_to_fp32=False"
        )
    if head.weight is embeddings.weight:
        raise UsageError(
            "cast_lm_head_to_fp32: the head shares its weight with the embeddings (tie_word_embeddings), which would "
            "become float32 too; set cast_lm_head_to_fp32=False, or load the whole model in float32"
        )
    head.float()
    head.__class__ = Float32Head
