"""What a vLLM server on CPU loads to take weights live, by --worker-extension-cls.

It registers the weight-transfer backend "gloo", and keeps linear layers as they are: on CPU vLLM otherwise packs their
weights and drops the originals, so that no new ones can be loaded. Only a process with vLLM may import this module.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import vllm.model_executor.layers.utils as vllm_layers
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

from plaudit.rollout.vllm.transfer import broadcast_gloo, join_gloo


@dataclass
class GlooInit(WeightTransferInitInfo):
    """Where the group meets. `rank_offset`: the rank of this server's first worker; `world_size`: of the group."""

    master_address: str
    master_port: int
    rank_offset: int
    world_size: int


@dataclass
class GlooUpdate(WeightTransferUpdateInfo):
    """What one buffer holds, in order: name, dtype (such as float32) and shape of each weight."""

    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]


class GlooEngine(WeightTransferEngine):
    """Takes weights over gloo and loads them in place."""

    init_info_cls = GlooInit
    update_info_cls = GlooUpdate
    _group: Any = None
    _store: Any = None

    def init_transfer_engine(self, init_info: GlooInit) -> None:
        """Join the trainer's group, leaving one of before."""
        self.shutdown()
        parallel = self.parallel_config
        rank = init_info.rank_offset + parallel.data_parallel_index * parallel.world_size + parallel.rank
        self._group, self._store = join_gloo(
            init_info.master_address, init_info.master_port, rank, init_info.world_size
        )

    def start_weight_update(self) -> None:
        """Nothing to prepare: weights are loaded in place."""

    def finish_weight_update(self) -> None:
        """Nothing is left to do."""

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Receive a part of the weights. The base class would wait for an accelerator, and here is none."""
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: GlooUpdate) -> None:
        """Receive one buffer and load what it holds."""
        dtypes = [getattr(torch, name) for name in update_info.dtype_names]
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in zip(dtypes, update_info.shapes, strict=True)]
        buffer = torch.empty(sum(sizes), dtype=torch.uint8)
        broadcast_gloo(self._group, buffer)
        parts = zip(update_info.names, dtypes, update_info.shapes, buffer.split(sizes), strict=True)
        # A part may begin where its type cannot: the copy is aligned.
        self.model.load_weights([(name, part.clone().view(dtype).view(shape)) for name, dtype, shape, part in parts])

    def shutdown(self) -> None:
        """Leave the group."""
        self._group = self._store = None


def _plain_linear(layer: Any, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear


# vLLM imports this module in each worker before it makes the model.
vllm_layers.dispatch_cpu_unquantized_gemm = _plain_linear
if "gloo" not in WeightTransferEngineFactory._registry:
    WeightTransferEngineFactory.register_engine("gloo", GlooEngine)


class CpuWeights:
    """The extension itself adds nothing to a worker; importing its module does."""
