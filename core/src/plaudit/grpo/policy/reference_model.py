"""The log-probs that are taken when a batch is generated: of the policy as it was, and of the reference model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..batch import MicroBatch
from ..logprobs import TokenScorer

REFERENCE_ADAPTER = "ref"


@dataclass(slots=True, eq=False)
class Reference:
    """The model that beta holds the policy to: a model of its own, or the policy without its adapter.

    `scorer` belongs to the model that `run` gives.
    """

    scorer: TokenScorer
    model: nn.Module | None = None

    def logprobs(self, policy: nn.Module, batch: MicroBatch) -> Tensor:
        """(B, C) log-probs of the micro-batch's completions, without gradient."""
        with nullcontext() if self.model is not None else without_adapter(policy):
            return self.scorer(self.model if self.model is not None else policy, batch).logprobs


@dataclass(slots=True, eq=False)
class Annotator:
    """Adds to a fresh micro-batch what must be computed before the policy moves.

    `policy` gives the wrapped policy. `old`: the batch serves more than one optimizer step, so its log-probs now are
    needed later as well. `sampler_is_policy`: whether those that come with completions are the policy's.
    """

    policy: Callable[[], nn.Module]
    scorer: TokenScorer
    old: bool
    reference: Reference | None = None
    sampler_is_policy: Callable[[], bool] = lambda: False

    def takes_sampled(self) -> bool:
        """Whether old log-probs are those that came with the completions, so that none are computed."""
        return self.old and self.sampler_is_policy()

    @torch.no_grad()
    def __call__(self, batch: MicroBatch) -> MicroBatch:
        """The micro-batch with old_logprobs and ref_logprobs where they are needed."""
        if batch.sampled_logprobs is not None and self.takes_sampled():
            batch = replace(batch, old_logprobs=batch.sampled_logprobs)
        elif self.old:
            batch = replace(batch, old_logprobs=self.scorer(self.policy(), batch).logprobs)
        if self.reference is not None:
            batch = replace(batch, ref_logprobs=self.reference.logprobs(self.policy(), batch))
        return batch


@contextmanager
def without_adapter(policy: nn.Module) -> Iterator[None]:
    """The policy as it was before training: its adapter off, or the copy that was taken of a resumed adapter on."""
    model: Any = getattr(policy, "module", policy)
    if REFERENCE_ADAPTER not in model.peft_config:
        with model.disable_adapter():
            yield
        return
    active = model.active_adapter
    model.set_adapter(REFERENCE_ADAPTER)
    try:
        yield
    finally:
        model.set_adapter(active)


def copy_adapter(model: Any) -> None:
    """Keep a frozen copy of a loaded adapter under the name "ref", for a policy that goes on training it."""
    active = model.active_adapter
    model.add_adapter(REFERENCE_ADAPTER, model.peft_config[active])
    weights = dict(model.named_parameters())
    for name, target in weights.items():
        if f".{REFERENCE_ADAPTER}." in name:
            target.data.copy_(weights[name.replace(f".{REFERENCE_ADAPTER}.", f".{active}.")].data)
            target.requires_grad_(False)
    model.set_adapter(active)
