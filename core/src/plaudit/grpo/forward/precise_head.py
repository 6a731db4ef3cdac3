"""A language-model head in float32 on a model in half precision: `cast_lm_head_to_fp32` (ScaleRL, arXiv 2510.13786)."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import UsageError


class Float32Head(nn.Linear):
    """A linear head that computes in float32 whatever it is given, outside autocast."""

    def forward(self, hidden: Tensor) -> Tensor:
        """hidden: (…, H) of any dtype. Returns (…, V) in float32."""
        with torch.autocast(hidden.device.type, enabled=False):
            return nn.functional.linear(hidden.float(), self.weight, self.bias)


def cast_head(model: Any) -> None:
    """Turn the model's head into a `Float32Head`, in place.

    A weight that head and embeddings share becomes float32 with it; what the embeddings return stays in the dtype that
    the other layers compute in. Raises UsageError when the head is not a plain linear layer (it is quantised, or
    carries an adapter).
    """
    head, embeddings = model.get_output_embeddings(), model.get_input_embeddings()
    if type(head) is not nn.Linear:
        raise UsageError(
            f"cast_lm_head_to_fp32: the head is a {type(head).__name__}, not a plain linear layer; take it out of the "
            "adapter's target_modules and of quantisation, or set cast_lm_head_to_fp32=False"
        )
    dtype = head.weight.dtype
    if head.weight is embeddings.weight and dtype != torch.float32:
        embeddings.register_forward_hook(partial(_cast_output, dtype))
    head.float()
    head.__class__ = Float32Head


def _cast_output(dtype: torch.dtype, module: nn.Module, args: Any, output: Tensor) -> Tensor:
    return output.to(dtype)
