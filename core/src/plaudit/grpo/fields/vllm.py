"""Fields about generation with vLLM and the correction for its numerics."""

# ruff: noqa: RUF009  (option() only wraps dataclasses.field, which the rule does not see)
from __future__ import annotations

from dataclasses import dataclass

from .option import option


@dataclass
class VLLMFields:
    """The vLLM engine, inside the trainer (colocate) or as a server."""

    use_vllm: bool = option(False, "Generate with vLLM in place of transformers.")
    vllm_mode: str = option("colocate", "colocate: vLLM shares the trainer's devices; server: it runs elsewhere.")
    vllm_model_impl: str = option("vllm", "Which code vLLM runs the model with: vllm, transformers or auto.")
    vllm_enable_sleep_mode: bool = option(False, "Free vLLM's memory while the policy trains (colocate).")
    vllm_structured_outputs_regex: str | None = option(None, "Regular expression that completions are held to.")
    vllm_server_base_url: list[str] | str | None = option(
        None, "Base URL of the vLLM server, or of several (a list, or separated by commas); it wins over host and port."
    )
    vllm_server_host: str = option("0.0.0.0", "Host of the vLLM server.")
    vllm_server_port: int = option(8000, "Port of the vLLM server.")
    vllm_server_timeout: float = option(
        240.0, "Seconds to wait for vLLM servers to come up or to come back, and for each call but completions."
    )
    vllm_request_timeout: float = option(
        1800.0, "Seconds that a vLLM server may take for one completion; then it is asked again."
    )
    vllm_group_port: int = option(
        51216, "Port over which weights are sent to the vLLM server; the next servers take the ports above; 0 = any."
    )
    vllm_gpu_memory_utilization: float = option(0.3, "Share of the device's memory that vLLM may use (colocate).")
    vllm_max_model_length: int | None = option(
        None, "Longest prompt with completion that vLLM takes, in tokens; None = the model's own."
    )
    vllm_tensor_parallel_size: int = option(1, "Devices that one vLLM engine is spread over (colocate).")
    vllm_importance_sampling_correction: bool = option(
        True, "Weigh the loss with the ratio of the policy to the engine that sampled, whose numerics differ."
    )
    vllm_importance_sampling_mode: str = option(
        "sequence_mask",
        "token_truncate, token_mask, sequence_truncate or sequence_mask: one ratio for each token or completion, "
        "clipped to the bounds or set to 0 outside them.",
    )
    vllm_importance_sampling_clip_max: float | None = option(3.0, "Upper bound of that ratio; None = no bound.")
    vllm_importance_sampling_clip_min: float | None = option(None, "Lower bound of that ratio; None = no bound.")
    vllm_importance_sampling_geometric_mean: bool = option(
        False,
        "In the sequence modes, take the geometric mean of the tokens' ratios; their product punishes length.",
    )
    vllm_importance_sampling_cap: float | None = option(None, "Old name of vllm_importance_sampling_clip_max.")
