"""A reference model that follows the policy (TR-DPO, arXiv 2404.09656): `sync_ref_model`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import TrainerCallback

from ...errors import UsageError
from .models import is_adapted

FILE = "reference_model.pth"


class MovingReference(TrainerCallback):
    """After every `ref_model_sync_steps` optimizer steps: reference = (1 - alpha) reference + alpha policy.

    `model`: the reference as the accelerator prepared it. Its weights go into every checkpoint, because they cannot be
    computed again.
    """

    def __init__(self, model: nn.Module, accelerator: Any) -> None:
        self.model = model
        self.accelerator = accelerator

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        """Called by the Trainer, before it saves a checkpoint of the step."""
        if state.global_step % args.ref_model_sync_steps == 0:
            policy = self.accelerator.unwrap_model(model)
            with _whole(self.accelerator, [*self.model.parameters(), *policy.parameters()]):
                mix(self.accelerator.unwrap_model(self.model), policy, args.ref_model_mixup_alpha)

    def save(self, folder: Path) -> None:
        """Write the reference into a checkpoint. Every rank must call it; the main process writes."""
        model = self.accelerator.unwrap_model(self.model)
        if _stage_3(self.accelerator):
            with _whole(self.accelerator, list(model.parameters())):
                weights = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
        else:
            weights = self.accelerator.get_state_dict(self.model)
        if self.accelerator.is_main_process:
            torch.save(weights, folder / FILE)

    def load(self, folder: Path) -> None:
        """Continue with the reference of a checkpoint. Raises UsageError when there is none in it."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

        file = folder / FILE
        if not file.is_file():
            raise UsageError(
                f"{folder} has no {FILE}, so it was written without sync_ref_model; set sync_ref_model=False to resume"
            )
        weights = torch.load(file, map_location="cpu", weights_only=True)
        model = self.accelerator.unwrap_model(self.model)
        if _stage_3(self.accelerator):
            with _whole(self.accelerator, list(model.parameters())):
                model.load_state_dict(weights)
        else:
            set_model_state_dict(self.model, weights, options=StateDictOptions(full_state_dict=True))


def follow_policy(args: Any, reference: Any, accelerator: Any) -> MovingReference | None:
    """What moves the run's Reference, if sync_ref_model asks for it."""
    return MovingReference(reference.model, accelerator) if args.sync_ref_model else None


@torch.no_grad()
def mix(reference: nn.Module, policy: nn.Module, alpha: float) -> None:
    """Move the reference's parameters by the share `alpha` towards the policy's. Buffers stay."""
    for kept, current in zip(reference.parameters(), policy.parameters(), strict=True):
        kept.data.mul_(1.0 - alpha).add_(current.data.to(kept.data), alpha=alpha)


def check_moving_reference(args: Any, model: Any, peft_config: Any) -> None:
    """Raise UsageError where sync_ref_model has no model of its own to move: with an adapter, as TRL does."""
    if args.sync_ref_model and (peft_config is not None or is_adapted(model)):
        raise UsageError(
            "sync_ref_model with a PEFT model: its reference is the model without the adapter, so there is none to "
            "move; set sync_ref_model=False, or train all weights"
        )


def _stage_3(accelerator: Any) -> bool:
    plugin = getattr(accelerator.state, "deepspeed_plugin", None)
    return plugin is not None and plugin.zero_stage == 3


@contextmanager
def _whole(accelerator: Any, parameters: list[nn.Parameter]) -> Iterator[None]:
    """With DeepSpeed ZeRO-3, all of these parameters on every rank for a while; what changed is spread out again."""
    if not _stage_3(accelerator):
        yield
        return
    import deepspeed

    # Every rank computes the same, and the first one's result counts.
    with deepspeed.zero.GatheredParameters(parameters, modifier_rank=0):
        yield
