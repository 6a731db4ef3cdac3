"""A stand-in for the forward of a model's head, and what the model does with the logits afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .precise_head import Float32Head

_TINY, _HUGE = 2.0**-20, 1e6  # where a cap is not felt yet, and where nothing else is
_PROBE = (_TINY, _HUGE, -40.0, -1.0, 2.0, 50.0)


@contextmanager
def answered_by(replacement: Any, module: nn.Module) -> Iterator[None]:
    """Let `replacement` answer calls of `module` for a while."""
    before = module.__dict__.get("forward")
    module.forward = replacement
    try:
        yield
    finally:
        if before is None:
            del module.forward
        else:
            module.forward = before


def is_plain(head: nn.Module) -> bool:
    """Whether the head multiplies with its weight and adds its bias: no adapter, no scales, no hook of its own.

    Nor a weight that is a tensor of another kind, as torchao's quantised ones are.
    """
    own = type(head).forward
    linear = own in (nn.Linear.forward, Float32Head.forward) and type(head.weight) is nn.Parameter
    return linear and "forward" not in vars(head)


def vocabulary(head: Any) -> int:
    """How many logits a head gives, also where it is quantised or wrapped."""
    return int(getattr(head, "out_features", None) or head.weight.shape[0])


@dataclass(frozen=True, slots=True)
class Tail:
    """`scale` times the head's logits, perhaps squeezed into ±`cap` by tanh: Cohere, Granite, Gemma 2 and others."""

    scale: float = 1.0
    cap: float | None = None

    def over(self, temperature: float) -> Tail:
        """The tail whose results are those of this one over the temperature."""
        return Tail(self.scale / temperature, None if self.cap is None else self.cap / temperature)

    def __call__(self, logits: Tensor) -> Tensor:
        """What becomes of the head's logits, of any shape."""
        scaled = logits if self.scale == 1 else logits * self.scale
        return scaled if self.cap is None else torch.tanh(scaled / self.cap) * self.cap

    def slope(self, results: Tensor) -> Tensor | float:
        """The derivative by the head's logits, where these became `results`."""
        return self.scale if self.cap is None else (1 - (results / self.cap).square_()) * self.scale


def tail_of(model: nn.Module, head: nn.Module) -> Tail | None:
    """What `model` does with the logits of its head. None: something else than a tail, or not only with these."""
    device = next(head.parameters()).device
    dtype = torch.float32 if device.type == "mps" else torch.float64
    # As wide as the vocabulary, for some leave out or cover a part of it.
    probe = torch.zeros(1, 1, vocabulary(head), device=device, dtype=dtype)
    probe[..., : len(_PROBE)] = torch.tensor(_PROBE)
    # Some answer a single token past their head.
    tokens = torch.zeros(1, 2, dtype=torch.long, device=device)
    training = model.training
    model.eval()
    try:
        # With gradient, to see whether anything is learnt after the head.
        with torch.enable_grad(), answered_by(lambda hidden: probe.clone(), head):
            logits = model(input_ids=tokens, use_cache=False).logits
    finally:
        model.train(training)
    if logits.shape != probe.shape or logits.requires_grad:
        return None
    tail = _fitted(float(logits[0, 0, 0]) / _TINY, float(logits[0, 0, 1]))
    return tail if torch.allclose(tail(probe), logits.to(probe), rtol=1e-5) else None


def _fitted(scale: float, most: float) -> Tail:
    """The tail with this slope at 0 that makes `most` of the largest logit."""
    scale = 1.0 if math.isclose(scale, 1.0, rel_tol=1e-6) else scale
    return Tail(scale, most if 0 < most < 0.9 * scale * _HUGE else None)
