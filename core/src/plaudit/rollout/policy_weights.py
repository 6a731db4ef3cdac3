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
    policy is not touched: a merged layer is a copy, one at a time, so that nothing drifts however often this is done.
    The tensors may share memory with the policy; copy what must outlive the next optimizer step.
    """
    adapted = hasattr(model, "peft_config") and hasattr(model, "get_base_model")
    for name, weight in _adapted_weights(model) if adapted else _plain_weights(model):
        for wrapper in _WRAPPERS:
            name = name.replace(wrapper, "")
        yield name, weight


def moved_since(model: Any, versions: tuple[int, ...] | None) -> tuple[bool, tuple[int, ...]]:
    """Whether a parameter was written to since `versions` were taken, and the versions now.

    Sees in-place operations, as optimizers and load_state_dict do them, not assignments through `.data`.
    """
    now = tuple(parameter._version for parameter in model.parameters())
    return now != versions, now


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
