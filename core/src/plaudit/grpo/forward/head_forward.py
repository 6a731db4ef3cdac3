"""A stand-in for the forward of a model's head, and whether it may compute what comes after the logits too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


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


@torch.no_grad()
def head_comes_last(model: nn.Module, head: nn.Module) -> bool:
    """Whether the model returns what its head returns: some scale or cap the logits afterwards (Gemma 2, Granite)."""
    probe = torch.tensor([[[-40.0, -1.0, 0.0, 2.0, 50.0]]], device=head.weight.device)
    token = torch.zeros(1, 1, dtype=torch.long, device=head.weight.device)
    training = model.training
    model.eval()
    try:
        with answered_by(lambda hidden: probe.to(hidden.dtype), head):
            logits = model(input_ids=token, use_cache=False).logits
    finally:
        model.train(training)
    return logits.shape == probe.shape and bool(torch.equal(logits.float(), probe))
