"""Making the static decode step cheap to repeat: compiled, or captured as a CUDA graph; and for which models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from shutil import which
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .caches import base_of, why_not_static
from .static_decoder import Step, forward_step

if TYPE_CHECKING:
    from torch import Tensor

DATA_DEPENDENT = ("dynamic", "longrope")  # rotary angles that change with the longest row
WORTH_TOKENS = 64  # completions that may come to fewer are written before captures have paid
_log = logging.getLogger("plaudit.rollout")


def check_compiling(cache: str | None, device: Any) -> None:
    """Raise UsageError on what excludes a compiled decode step, whatever the model. `cache`: see `CACHES`."""
    if cache not in (None, "static"):
        raise UsageError(
            f"compile_decoding needs static shapes, and cache_implementation is {cache!r}; set 'static' or leave it out"
        )
    import torch
    from torch._inductor import config

    compilers = [name for name in config.cpp.cxx if name]
    if torch.device(device).type == "cpu" and not any(map(which, compilers)):
        raise UsageError(
            f"compile_decoding needs a C++ compiler, and there is no {' or '.join(compilers)}; install one (CXX names "
            "another), or leave compile_decoding off"
        )


def refuse_compiling(model: Any, cache: str | None) -> None:
    """Raise UsageError if the model's decode step cannot be compiled, saying why."""
    check_compiling(cache, model.device)
    if (reason := why_not_replayed(model)) is not None:
        raise UsageError(f"compile_decoding does not fit {type(base_of(model)).__name__}: {reason}")


def why_not_replayed(model: Any) -> str | None:
    """What keeps the model's step from being compiled or captured, or None."""
    base = base_of(model)
    rotary = sorted(_rotary_types(base) & set(DATA_DEPENDENT))
    quantizer = getattr(base, "hf_quantizer", None)
    devices = {str(weight.device) for weight in base.parameters()}
    reasons = {
        "transformers says that it cannot be compiled": not getattr(base, "_can_compile_fullgraph", False),
        f"its rotary embedding ({', '.join(rotary)}) depends on the longest row": bool(rotary),
        "its quantized weights cannot be compiled": quantizer is not None and not quantizer.is_compileable,
        f"its weights are on several devices ({', '.join(sorted(devices))})": len(devices) > 1,
        "its weights are spread over the ranks": any(hasattr(part, "_get_fsdp_state") for part in base.modules())
        or any(hasattr(weight, "ds_id") for weight in base.parameters()),
    }
    return why_not_static(model) or next((reason for reason, holds in reasons.items() if holds), None)


def graphs_pay(model: Any, tokens: int) -> bool:
    """Whether CUDA graphs speed up completions of up to `tokens` tokens: a step of a few rows is launches, not work."""
    return model.device.type == "cuda" and tokens >= WORTH_TOKENS and why_not_replayed(model) is None


def compiled_step() -> Callable[[Any, Mapping[str, Any]], Tensor]:
    """`forward_step` as torch.compile makes it, for any number of rows and columns."""
    import torch

    # As in the model's own code, numbers in half precision are rounded after each operation, not after several.
    return torch.compile(forward_step, dynamic=True, options={"emulate_precision_casts": True})


def cuda_graph(step: Step) -> Step:
    """Capture `step`, which runs once for this, and return its replay; `step` itself, with a warning, if CUDA refuses.

    Replays write to the same logits.
    """
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    try:
        # Other threads may use the device meanwhile: rewards run beside generation.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            logits = step()
    except RuntimeError as error:
        _log.warning("the decode step cannot be captured as a CUDA graph (%s); it runs without one", error)
        return step

    def replay() -> Tensor:
        graph.replay()
        return logits

    return replay


def _rotary_types(model: Any) -> set[str]:
    found: set[str] = set()
    for part in model.modules():
        named = getattr(part, "rope_type", None) or ()
        found |= {named} if isinstance(named, str) else set(named.values() if isinstance(named, Mapping) else named)
    return found
