"""Policies whose weights are spread over the ranks (FSDP2, DeepSpeed ZeRO-3), made whole while completions are written.

Ranks write completions of different lengths. A forward that collects its weights layer by layer would wait for ranks
that have ended, so each rank holds all weights meanwhile, which takes their memory on each device.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from ..ranks import Ranks


def shards_weights(accelerator: Any) -> bool:
    """Whether a run spreads each weight over its ranks: FSDP2, or DeepSpeed at ZeRO stage 3."""
    plugin = getattr(accelerator.state, "deepspeed_plugin", None)
    return str(accelerator.distributed_type.value) == "FSDP" or (plugin is not None and plugin.zero_stage == 3)


def gathers(args: Any, accelerator: Any) -> bool:
    """Whether weights are made whole for generation. vLLM needs them whole whatever ds3_gather_for_generation says."""
    return shards_weights(accelerator) and (args.ds3_gather_for_generation or args.use_vllm)


def decodes_in_step(args: Any, accelerator: Any) -> bool:
    """Whether each forward of the decode loop collects its weights layer by layer, so that all ranks must run it."""
    return shards_weights(accelerator) and not gathers(args, accelerator)


def steps_together(ranks: Ranks) -> Callable[[bool], bool]:
    """Tells a rank before each forward whether any rank still decodes, given whether it does itself."""
    return lambda busy: any(ranks.share(lambda: busy))


def prepare_frozen(accelerator: Any, model: nn.Module) -> nn.Module:
    """A model that is not trained, spread over the ranks as the policy is."""
    if str(accelerator.distributed_type.value) == "FSDP":
        from accelerate.utils.fsdp_utils import fsdp2_prepare_model

        return fsdp2_prepare_model(accelerator, model)
    return accelerator.prepare_model(model, evaluation_mode=True)


@contextmanager
def whole_weights(model: nn.Module, ranks: Ranks) -> Iterator[None]:
    """All weights of a sharded model on every rank, in place; nothing to do for one that is not sharded.

    Every rank must enter it at the same point, and leaves it when it likes. Weights must not be changed inside.
    """
    # A rank that failed on its way here answers this exchange; without it the others would wait for its weights.
    ranks.share(lambda: None)
    with ExitStack() as stack:
        stack.enter_context(_unsharded(model))
        stack.enter_context(_zero3_gathered(model))
        yield


@contextmanager
def _unsharded(model: nn.Module) -> Iterator[None]:
    """FSDP2: unshard every group, and keep forwards from sharding it again."""
    from torch.distributed.fsdp import FSDPModule

    modules = [module for module in model.modules() if isinstance(module, FSDPModule)]
    groups = [group for module in modules for group in _groups(module)]
    before = [group.post_forward_mesh_info for group in groups]
    try:
        for module in modules:
            module.unshard()
            module.set_reshard_after_forward(False, recurse=False)
        yield
    finally:
        for group, mesh in zip(groups, before, strict=True):
            group.post_forward_mesh_info = mesh
        for module in modules:
            module.reshard()


def _groups(module: Any) -> Sequence[Any]:
    # FSDP2 has no public way to read what set_reshard_after_forward() sets.
    state = module._get_fsdp_state()
    found = state._fsdp_param_groups if hasattr(state, "_fsdp_param_groups") else [state._fsdp_param_group]
    return [group for group in found if group is not None]


@contextmanager
def _zero3_gathered(model: nn.Module) -> Iterator[None]:
    """DeepSpeed ZeRO-3: gather all parameters, with the hooks off that would partition them after each layer."""
    parameters = [parameter for parameter in model.parameters() if hasattr(parameter, "ds_id")]
    if not parameters:
        yield
        return
    import deepspeed

    hooks = [(module, module._forward_pre_hooks, module._forward_hooks) for module in model.modules()]
    with deepspeed.zero.GatheredParameters(parameters):
        try:
            for module, *_ in hooks:
                module._forward_pre_hooks, module._forward_hooks = OrderedDict(), OrderedDict()
            yield
        finally:
            for module, before, after in hooks:
                module._forward_pre_hooks, module._forward_hooks = before, after
