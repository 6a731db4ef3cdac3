"""The commands that start vLLM servers for a run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plaudit.errors import UsageError

if TYPE_CHECKING:
    from plaudit.run.preflight import Prepared

EXTENSION = "plaudit.rollout.vllm.worker.CpuWeights"
LEAST_LOGPROBS = 20
CPU_BLOCK = 32  # tokens of a KV block; vLLM's 128 would share no prompt that is shorter


@dataclass(frozen=True, slots=True)
class Served:
    """How a run is served: `servers` of them on ports from `port` up, each on `tensor_parallel` GPUs or on the CPU.

    `more`: further options of `vllm serve`.
    """

    executable: str
    host: str
    port: int
    servers: int = 1
    tensor_parallel: int = 1
    on_gpu: bool = False
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """`environment`: what is set beside that of this process. `url`: where the server answers."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    url: str


def server_commands(prepared: Prepared, served: Served) -> list[ServerCommand]:
    """One command a server. Raises UsageError when there are fewer GPUs than they need."""
    options = [*_options(prepared, served), *served.more]
    devices = _devices(served)
    found = []
    for index in range(served.servers):
        port = served.port + index
        arguments = [served.executable, "serve", prepared.model.path, "--host", served.host, "--port", str(port)]
        environment = {"VLLM_SERVER_DEV_MODE": "1"}
        if served.on_gpu:
            mine = devices[index * served.tensor_parallel : (index + 1) * served.tensor_parallel]
            environment["CUDA_VISIBLE_DEVICES"] = ",".join(mine)
        else:
            environment |= _cpu_environment()
        reached = "127.0.0.1" if served.host in ("0.0.0.0", "::") else served.host
        found.append(ServerCommand([*arguments, *options], environment, f"http://{reached}:{port}"))
    return found


def _options(prepared: Prepared, served: Served) -> list[str]:
    config, model = prepared.config, prepared.run.model
    options = [
        *("--dtype", _dtype(prepared, served)),
        *("--max-model-len", str(_longest(prepared))),
        *("--logprobs-mode", "processed_logprobs"),
        *("--max-logprobs", str(max(LEAST_LOGPROBS, config.top_k))),
        *("--generation-config", "vllm"),
        *("--model-impl", config.vllm_model_impl),
        *("--weight-transfer-config", json.dumps({"backend": "nccl" if served.on_gpu else "gloo"})),
    ]
    if served.on_gpu:
        options += ["--tensor-parallel-size", str(served.tensor_parallel)]
    else:
        options += ["--enforce-eager", "--block-size", str(CPU_BLOCK), "--worker-extension-cls", EXTENSION]
        options += ["--gpu-memory-utilization", "0.1"]
    if prepared.model.processor is not None:
        # Pictures are prepared apart from completions, and as the trainer's processor does it.
        options += ["--enable-scale-out", "--no-mm-device-do-normalize"]
    if config.trust_remote_code or model.model_init_kwargs.get("trust_remote_code"):
        options.append("--trust-remote-code")
    return options if model.revision is None else [*options, "--revision", model.revision]


def _dtype(prepared: Prepared, served: Served) -> str:
    """The type that the trainer computes in."""
    asked = str(prepared.run.model.model_init_kwargs.get("dtype", "float32")).removeprefix("torch.")
    if asked == "float32" and served.on_gpu and prepared.config.bf16:
        return "bfloat16"
    return "float16" if asked == "float32" and served.on_gpu and prepared.config.fp16 else asked


def _longest(prepared: Prepared) -> int:
    """Tokens of the longest prompt with its completion; the whole context where environments add to prompts."""
    config = prepared.config
    if config.vllm_max_model_length:
        return int(config.vllm_max_model_length)
    context = prepared.model.context_tokens
    if context and _converses(prepared):
        return context
    return int(prepared.lengths.longest) + int(config.max_completion_length)


def _converses(prepared: Prepared) -> bool:
    run = prepared.run
    tasks = [getattr(task, "environment", None) for task in run.tasks]
    return bool(getattr(run, "environments", ()) or getattr(run, "tools", ()) or any(tasks))


def _devices(served: Served) -> list[str]:
    if not served.on_gpu:
        return []
    import torch

    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    visible = given.split(",") if given else [str(index) for index in range(torch.cuda.device_count())]
    needed = served.servers * served.tensor_parallel
    if len(visible) < needed:
        raise UsageError(
            f"{served.servers} servers on {served.tensor_parallel} GPUs each need {needed}, and {len(visible)} are "
            "visible; lower --servers or --tensor-parallel"
        )
    return visible


def _cpu_environment() -> dict[str, str]:
    """What keeps vLLM small and predictable on a CPU, where the user has not said otherwise."""
    wanted = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1"}
    return {name: value for name, value in wanted.items() if name not in os.environ}
