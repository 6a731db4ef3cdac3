"""The policy's weights under the names of a saved checkpoint, as engines with a copy of their own load them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

_WRAPPERS = ("_checkpoint_wrapped_module.", "_orig_mod.")


def policy_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, weight) of each distinct parameter; adapters are merged into the weights that they adapt.

    `model`: a causal language model, perhaps inside a PEFT wrapper, unwrapped from DDP. A tied weight comes once. The
    policy is not touched: a merged layer is a copy, so that nothing drifts however often this is done. The copies come
    one at a time, but all together where transformers stores weights in other parts than it computes with (experts).
    The tensors may share memory with the policy; copy what must outlive the next optimizer step.
    """
    adapted = hasattr(model, "peft_config") and hasattr(model, "get_base_model")
    found = _unwrapped(_adapted_weights(model) if adapted else _plain_weights(model))
    yield from _as_stored(model.get_base_model() if adapted else model, found)


def moved_since(model: Any, versions: tuple[int, ...] | None) -> tuple[bool, tuple[int, ...]]:
    """Whether a parameter was written to since `versions` were taken, and the versions now.

    Sees in-place operations, as optimizers and load_state_dict do them, not assignments through `.data`.
    """
    now = tuple(parameter._version for parameter in model.parameters())
    return now != versions, now


def _unwrapped(weights: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    for name, weight in weights:
        for wrapper in _WRAPPERS:
            name = name.replace(wrapper, "")
        yield name, weight


def _as_stored(model: Any, weights: Iterator[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
    """The weights as `save_pretrained` writes them, which engines read: other names, for some models other parts."""
    import torch
    from transformers import PreTrainedModel
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, revert_weight_conversion

    if not isinstance(model, PreTrainedModel):
        yield from weights
        return
    changes = getattr(model, "_weight_conversions", None) or get_model_conversion_mapping(model, add_legacy=False)
    if any(isinstance(change, WeightConverter) for change in changes):
        yield from revert_weight_conversion(model, dict(weights)).items()
        return
    names = [name for name, _ in _unwrapped(model.named_parameters())] if changes else []
    places = {name: torch.tensor(place) for place, name in enumerate(names)}
    stored = {names[int(place)]: name for name, place in revert_weight_conversion(model, places).items()}
    for name, weight in weights:
        yield stored.get(name, name), weight


def _plain_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    for name, parameter in model.named_parameters():
        yield name, parameter.detach()


def _adapted_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils import ModulesToSaveWrapper

    base = model.get_base_model()
    seen: set[int] = set()
    inside: list[str] = []  # modules whose parameters were given already
    for path, module in base.named_modules():
        if any(path.startswith(f"{outer}.") for outer in inside):
            continue
        if isinstance(module, (ModulesToSaveWrapper, BaseTunerLayer)):
            inside.append(path)
            found = _saved_module(module) if isinstance(module, ModulesToSaveWrapper) else _merged_layer(module)
            yield from ((f"{path}.{name}", weight) for name, weight in found)
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{path}.{name}" if path else name, parameter.detach()


def _saved_module(module: Any) -> Iterator[tuple[str, Tensor]]:
    """A module that is trained as a whole beside the adapter: the copy in use."""
    active = module.active_adapters
    used = module.modules_to_save[active[0]] if active and not module.disable_adapters else module.original_module
    for name, parameter in used.named_parameters():
        yield name, parameter.detach()


def _merged_layer(layer: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights of an adapted layer, with what its active adapters add."""
    if not layer.active_adapters or layer.disable_adapters:
        merged = layer
    else:
        merged = copy.deepcopy(layer)
        if not merged.merged:
            merged.merge()
    for name, parameter in merged.get_base_layer().named_parameters():
        yield name, parameter.detach()
