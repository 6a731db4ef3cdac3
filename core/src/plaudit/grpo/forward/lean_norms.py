"""RMS norms with a backward pass of their own, for a CPU in float32.

transformers' modules are written in single operations, and autograd goes back through each of them. Of a small model
that is a good part of a training pass. The gradient in closed form takes half a dozen operations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class LeanNorms:
    """The norms of a model that are x / sqrt(mean(x²) + eps) * weight, as in Llama, Qwen, Mistral, Phi-3 and OLMo."""

    def __init__(self, model: nn.Module) -> None:
        """`model`: unwrapped. Each kind of norm is tried once."""
        agrees: dict[tuple[type, float], bool] = {}
        self._norms: list[nn.Module] = []
        for module in model.modules():
            if not _looks_alike(module):
                continue
            kind = type(module), module.variance_epsilon
            if kind not in agrees:
                agrees[kind] = _agrees(module)
            if agrees[kind]:
                self._norms.append(module)
        self._checkpointed = [module for module in model.modules() if hasattr(module, "gradient_checkpointing")]

    @contextmanager
    def used(self) -> Iterator[None]:
        """Compute them the lean way for a while, unless layers are computed again in the backward pass, after it."""
        again = any(module.gradient_checkpointing for module in self._checkpointed)
        changed = [] if again else [module for module in self._norms if "forward" not in vars(module)]
        for module in changed:
            module.forward = partial(_normed, module)
        try:
            yield
        finally:
            for module in changed:
                del module.forward


def _normed(module: Any, hidden: Tensor) -> Tensor:
    weight = module.weight
    plain = type(weight) is nn.Parameter and hidden.dtype == weight.dtype == torch.float32
    if not plain or hidden.device.type != "cpu":
        return type(module).forward(module, hidden)
    return _RMSNorm.apply(hidden, weight, module.variance_epsilon)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, eps: float) -> Tensor:
        length = torch.linalg.vector_norm(hidden, dim=-1, keepdim=True)
        scale = length.square_().div_(hidden.shape[-1]).add_(eps).rsqrt_()
        unit = hidden * scale
        ctx.save_for_backward(unit, scale, weight)
        return unit * weight

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        unit, scale, weight = ctx.saved_tensors
        product = grad * unit
        into_hidden = into_weight = None
        if ctx.needs_input_grad[0]:
            # scale * (g - unit * mean(g * unit)), where g is the gradient of `unit`
            along = product.matmul(weight).div_(-len(weight)).unsqueeze(-1)
            into_hidden = (grad * weight).addcmul_(unit, along).mul_(scale)
        if ctx.needs_input_grad[1]:
            into_weight = product.sum(tuple(range(product.dim() - 1)))
        return into_hidden, into_weight, None


def _looks_alike(module: nn.Module) -> bool:
    weight: Any = getattr(module, "weight", None)
    return (
        type(module).__name__.endswith("RMSNorm")
        and type(weight) is nn.Parameter
        and weight.dim() == 1
        and hasattr(module, "variance_epsilon")
        and len(list(module.parameters())) == 1
    )


@torch.no_grad()
def _agrees(module: Any) -> bool:
    """Whether the module computes this formula, on numbers that tell it from others."""
    size, weight = module.weight.shape[0], module.weight
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not size:
        return False
    hidden = torch.linspace(-0.3, 2.0, 2 * size).view(1, 2, size)
    try:
        expected = module(hidden)
    except Exception:
        # Norms with other arguments (a gate, a residual) are left as they are.
        return False
    found = _RMSNorm.apply(hidden, weight, module.variance_epsilon)
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-5, atol=1e-6)
