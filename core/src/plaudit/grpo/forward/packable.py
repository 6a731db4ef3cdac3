"""Which models can run packed rows, and the call that runs one."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from ..batch import Experience, collate
from .packed_attention import NAME, Watch, attending, packed_attention
from .packing import Packed, packed_in_any_case

_BACKENDS = ("eager", "sdpa", "flash", "flex", "kernels-community")
_KINDS = {"full_attention", "sliding_attention"}
_PROBE = [
    Experience((3, 1, 4, 1, 5), (9, 2, 6), (1, 1, 1)),
    Experience((3, 1, 4, 1, 5), (3, 5), (1, 1)),
    Experience((2, 7), (1, 8), (1, 1)),
]


def packing_allowed(args: Any) -> bool:
    """Whether the run computes layers as they are: compiled ones are traced with one attention, and those that FSDP
    checkpoints are computed again in the backward pass.
    """
    return not (args.torch_compile or (args.fsdp_config or {}).get("activation_checkpointing"))


class PackedModel:
    """Runs packed rows on a model, where its attention goes through transformers' registry.

    `usable`: whether the model gives the same for a packed row as for its segments alone, which is tried once.
    """

    def __init__(self, model: nn.Module) -> None:
        """`model`: unwrapped, perhaps inside a PEFT wrapper."""
        from transformers import AttentionInterface

        AttentionInterface.register(NAME, packed_attention)
        self._modules = [module for module in model.modules() if hasattr(module, "gradient_checkpointing")]
        configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
        self._configs = [config for config in configs.values() if _backend(config) is not None]
        known = all(str(_backend(config)).startswith(_BACKENDS) for config in self._configs)
        self.usable = known and bool(self._configs) and _takes_positions(model) and self._agrees(model)

    @property
    def ready(self) -> bool:
        """Usable, and no layer is computed again in the backward pass, where it would see another attention."""
        return self.usable and not any(module.gradient_checkpointing for module in self._modules)

    def __call__(self, model: nn.Module, packed: Packed) -> Tensor:
        """What `model` (wrapped or not) returns as logits, (1, T, …)."""
        with attending(self._configs, packed.blocks):
            return self._logits(model, packed)

    def _logits(self, model: nn.Module, packed: Packed) -> Tensor:
        return model(
            input_ids=packed.input_ids, attention_mask=None, position_ids=packed.position_ids, use_cache=False
        ).logits

    @torch.no_grad()
    def _agrees(self, model: nn.Module) -> bool:
        batch = collate(_PROBE, pad_token_id=0, device=next(model.parameters()).device)
        batch = replace(batch, input_ids=batch.input_ids % model.config.get_text_config().vocab_size)
        packed = packed_in_any_case(batch, shared=True)
        training = model.training
        model.eval()
        try:
            plain = model(input_ids=batch.input_ids, use_cache=False).logits.flatten(0, 1)[batch.positions]
            with attending(self._configs, packed.blocks) as watch:
                found = self._logits(model, packed)[0, packed.positions]
        except Exception:
            # CannotPack, or whatever else an unforeseen layer says of one long row: then rows are padded.
            return False
        finally:
            model.train(training)
        return _as_configured(model.config.get_text_config(), watch) and _close(found, plain)


def _backend(config: Any) -> str | None:
    return getattr(config, "_attn_implementation_internal", None)


def _takes_positions(model: Any) -> bool:
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "position_ids" in signature(base.forward).parameters


def _as_configured(config: Any, watch: Watch) -> bool:
    """Whether every layer attended through the registry, and those with a window said so."""
    layers = config.num_hidden_layers
    kinds = getattr(config, "layer_types", None)
    if kinds is None:
        kinds = ["full_attention" if getattr(config, "sliding_window", None) is None else "sliding_attention"] * layers
    windows = sum(kind == "sliding_attention" for kind in kinds)
    return watch.calls == layers and watch.windows == windows and set(kinds) <= _KINDS


def _close(found: Tensor, expected: Tensor) -> bool:
    allowed = 1e-3 if found.dtype in (torch.float32, torch.float64) else 0.1
    return bool((found - expected).abs().max() <= allowed * expected.abs().max())
