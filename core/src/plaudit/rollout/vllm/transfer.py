"""How weights travel from the trainer to the workers of a vLLM server: in a group of their own, the trainer rank 0.

`gloo` for CPUs, by an engine of ours in the server (worker.py); `nccl` for GPUs, by vLLM's own. Gloo needs no vLLM
in the trainer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

GROUP_TIMEOUT_S = 120.0


class Group(Protocol):
    """The trainer's end of a connection to one server."""

    def send(self, tensors: Sequence[Tensor]) -> None:
        """Send these to all workers, who must be receiving the same; returns when they may change again."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


@dataclass(frozen=True, slots=True)
class Address:
    """Where the group meets: `host` and `port` of the trainer as the server sees them; `size`: trainer and workers."""

    host: str
    port: int
    size: int


def backend_for(device: str) -> str:
    """The backend for a policy on a device of this type: the one that its server must be started with."""
    return "nccl" if device == "cuda" else "gloo"


def open_group(backend: str, address: Address) -> Group:
    """Join as rank 0; blocks until all workers have joined."""
    return NcclGroup(address) if backend == "nccl" else GlooGroup(address)


def join_gloo(host: str, port: int, rank: int, size: int) -> tuple[Any, Any]:
    """A gloo process group beside torch's default one, and the store that it met at, which must live as long."""
    import torch.distributed as dist

    wait = timedelta(seconds=GROUP_TIMEOUT_S)
    store = dist.TCPStore(host, port, size, rank == 0, timeout=wait, wait_for_workers=False)
    return dist.ProcessGroupGloo(dist.PrefixStore("plaudit-weights", store), rank, size, wait), store


def broadcast_gloo(group: Any, tensor: Tensor) -> None:
    """Rank 0's contents into the tensor of every rank."""
    import torch.distributed as dist

    options = dist.BroadcastOptions()
    options.rootRank, options.rootTensor = 0, 0
    group.broadcast([tensor], options).wait()


class GlooGroup:
    """All tensors of a call travel as one buffer of bytes, in their order."""

    def __init__(self, address: Address) -> None:
        # The trainer keeps the store itself, so it meets there by loopback.
        self._group, self._store = join_gloo("127.0.0.1", address.port, 0, address.size)

    def send(self, tensors: Sequence[Tensor]) -> None:
        """See Group."""
        import torch

        flat = [tensor.detach().contiguous().cpu().reshape(-1).view(torch.uint8) for tensor in tensors]
        broadcast_gloo(self._group, torch.cat(flat))

    def close(self) -> None:
        """See Group."""
        self._group = self._store = None


class NcclGroup:
    """vLLM's own communicator, tensor by tensor. Not run: it needs two GPUs."""

    def __init__(self, address: Address) -> None:
        from vllm.distributed.weight_transfer.nccl_common import trainer_init

        self._group: Any = trainer_init(
            {"master_address": address.host, "master_port": address.port, "world_size": address.size}
        )

    def send(self, tensors: Sequence[Tensor]) -> None:
        """See Group."""
        import torch

        stream = torch.cuda.current_stream()
        # The copies must live until the broadcasts that read them are done.
        whole = [tensor.detach().contiguous() for tensor in tensors]
        for tensor in whole:
            self._group.broadcast(tensor, src=0, stream=stream)
        stream.synchronize()

    def close(self) -> None:
        """See Group."""
        if self._group is not None:
            self._group.destroy()
            self._group = None
