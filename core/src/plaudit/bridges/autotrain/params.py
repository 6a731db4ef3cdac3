"""The parameters of a run as AITraining names them, checked when they are given."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_args, get_origin, get_type_hints

from plaudit.errors import UsageError

LOSSES = ("grpo", "dapo", "dr_grpo", "bnpo", "cispo", "sapo")
VLLM_MODES = ("colocate", "server")


def _flag(default: Any, help: str, choices: tuple[Any, ...] | None = None) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices})


@dataclass(kw_only=True, slots=True)
class LLMTrainingParams:
    """A GRPO run. Names and defaults are AITraining's (0.0.54). Raises UsageError on a value that cannot work."""

    model: str = _flag("google/gemma-3-270m", "hub id or folder of the model, or a model that a plugin offers")
    project_name: str = _flag("project-name", "the output folder")
    trainer: str = _flag("grpo", "the trainer; this interface has GRPO alone", ("grpo",))
    # The environment
    rl_env_module: str | None = _flag(None, "module of the environment, e.g. my_envs.hotel_env")
    rl_env_class: str | None = _flag(None, "its class, e.g. HotelEnv")
    rl_env_config: str | Mapping[str, Any] | None = _flag(None, "JSON object: what the class is called with")
    max_samples: int | None = _flag(None, "use this many rows of the environment's dataset; all when left out")
    # GRPO
    rl_num_generations: int = _flag(4, "completions for each prompt, at least 2")
    rl_max_new_tokens: int = _flag(128, "longest completion, in tokens")
    rl_temperature: float = _flag(1.0, "sampling temperature")
    rl_top_p: float = _flag(1.0, "nucleus sampling")
    rl_top_k: int = _flag(50, "sample from this many tokens; 0 = from all")
    rl_kl_coef: float = _flag(0.1, "weight of the KL term (beta)")
    rl_clip_range: float = _flag(0.2, "clip range of the ratio (epsilon)")
    rl_loss_type: str = _flag("grpo", "the loss", LOSSES)
    rl_mask_truncated_completions: bool = _flag(False, "learn nothing from completions that were cut off")
    # vLLM
    use_vllm: bool = _flag(False, "generate with vLLM")
    vllm_mode: str = _flag("colocate", "vLLM in this process, or as a server", VLLM_MODES)
    vllm_gpu_memory_utilization: float = _flag(0.3, "share of the GPU's memory for vLLM (colocate)")
    vllm_server_url: str | None = _flag(None, "URL of the vLLM server; left out = this machine, port 8000")
    vllm_tensor_parallel_size: int = _flag(1, "GPUs of one vLLM engine")
    vllm_server_gpus: int = _flag(1, "GPUs of the server, taken off the training processes (server)")
    # Optimisation
    epochs: int = _flag(1, "passes over the dataset")
    batch_size: int = _flag(2, "rollouts of a device in one forward pass")
    gradient_accumulation: int = _flag(4, "forward passes in one optimizer step")
    lr: float = _flag(3e-5, "learning rate")
    warmup_ratio: float = _flag(0.1, "share of the steps with a rising learning rate")
    optimizer: str = _flag("adamw_torch", "optimizer, as transformers names it")
    scheduler: str = _flag("linear", "learning-rate schedule, as transformers names it")
    weight_decay: float = _flag(0.0, "weight decay")
    max_grad_norm: float = _flag(1.0, "largest gradient norm")
    seed: int = _flag(42, "random seed")
    mixed_precision: str | None = _flag(None, "fp16, bf16 or none", ("fp16", "bf16", "none"))
    disable_gradient_checkpointing: bool = _flag(False, "keep activations: faster, more memory")
    attn_implementation: str | None = _flag(None, "attention, as transformers names it")
    ddp_timeout: int = _flag(7200, "seconds until a process that waits for the others gives up")
    # Adapters
    peft: bool = _flag(False, "train a LoRA adapter")
    lora_r: int = _flag(16, "its rank")
    lora_alpha: int = _flag(32, "its scale")
    lora_dropout: float = _flag(0.05, "its dropout")
    target_modules: str = _flag("all-linear", "the modules it changes, separated by commas")
    merge_adapter: bool = _flag(True, "save the whole model with the adapter merged into it")
    quantization: str | None = _flag(None, "load the model in int4 or int8 (needs bitsandbytes)", ("int4", "int8"))
    # Logs and files
    log: str = _flag("none", "wandb, tensorboard, none …")
    logging_steps: int = _flag(-1, "steps between log lines; -1 = a twentieth of the run")
    save_strategy: str = _flag("epoch", "when checkpoints are saved", ("epoch", "steps", "no"))
    save_steps: int = _flag(500, "steps between checkpoints (save_strategy steps)")
    save_total_limit: int = _flag(1, "checkpoints that are kept")
    resume_from_checkpoint: str | None = _flag(None, "checkpoint folder to continue from, or auto")
    push_to_hub: bool = _flag(False, "upload the model at the end")
    repo_id: str | None = _flag(None, "where to; username/project_name when left out")
    username: str | None = _flag(None, "hub user")
    token: str | None = _flag(None, "hub token")

    def __post_init__(self) -> None:
        """Check everything that can be checked before anything is imported."""
        for name, remedy in (
            ("rl_env_module", "--rl-env-module my_envs.hotel_env"),
            ("rl_env_class", "--rl-env-class HotelEnv"),
        ):
            if not getattr(self, name):
                raise UsageError(f"GRPO requires {_spelled(name)}, the environment that scores; for example {remedy}")
        hints = get_type_hints(type(self))
        for one in fields(self):
            self._check_type(one.name, hints[one.name])
            self._check_choice(one.name, one.metadata["choices"])
        for name in ("model", "project_name"):
            if not getattr(self, name):
                raise UsageError(f"{_spelled(name)} is empty")
        for name, low in _AT_LEAST.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise UsageError(f"{_spelled(name)} is {value!r}; expected at least {low}")
        for name in ("rl_top_p", "vllm_gpu_memory_utilization"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{_spelled(name)} is {getattr(self, name)!r}; expected above 0 and at most 1")
        for name in ("warmup_ratio", "lora_dropout"):
            if getattr(self, name) >= 1:
                raise UsageError(f"{_spelled(name)} is {getattr(self, name)!r}; expected a share below 1")
        if self.vllm_server_url and not self.vllm_server_url.startswith(("http://", "https://")):
            raise UsageError(f"--vllm-server-url is {self.vllm_server_url!r}; expected http://host:port")
        if self.rl_temperature == 0:
            raise UsageError("--rl-temperature is 0; log-probs are divided by it, so it must be above 0")
        if self.push_to_hub and not (self.repo_id or self.username):
            raise UsageError("--push-to-hub needs --repo-id owner/name, or --username")
        self.env_config()

    def _check_type(self, name: str, hint: Any) -> None:
        value = getattr(self, name)
        kinds = [get_origin(one) or one for one in get_args(hint) or (hint,)]
        allowed = tuple(kinds) + ((int,) if float in kinds else ())
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in kinds):
            shown = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in kinds)
            raise UsageError(f"{_spelled(name)} is {value!r:.60}; expected {shown}")
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"{_spelled(name)} is {value!r}; expected a number")

    def _check_choice(self, name: str, choices: tuple[Any, ...] | None) -> None:
        value = getattr(self, name)
        if choices is not None and value is not None and value not in choices:
            raise UsageError(f"{_spelled(name)} is {value!r}; expected one of {', '.join(map(str, choices))}")

    def env_config(self) -> dict[str, Any]:
        """What the environment's class is called with. Raises UsageError when it is not a JSON object."""
        if self.rl_env_config is None:
            return {}
        found: Any = self.rl_env_config
        if isinstance(found, str):
            try:
                found = json.loads(found)
            except json.JSONDecodeError as error:
                raise UsageError(
                    f"--rl-env-config is not JSON: {error}; it was {self.rl_env_config!r:.80}, expected e.g. "
                    "'{\"max_turns\": 5}'"
                ) from None
        if not isinstance(found, Mapping):
            raise UsageError(f"--rl-env-config is {found!r:.80}; expected a JSON object, e.g. '{{\"max_turns\": 5}}'")
        return dict(found)


_AT_LEAST: dict[str, float] = {
    "rl_num_generations": 2,
    "rl_max_new_tokens": 1,
    "rl_temperature": 0,
    "rl_top_k": 0,
    "rl_kl_coef": 0,
    "rl_clip_range": 0,
    "max_samples": 1,
    "vllm_tensor_parallel_size": 1,
    "vllm_server_gpus": 1,
    "epochs": 1,
    "batch_size": 1,
    "gradient_accumulation": 1,
    "lr": 0,
    "warmup_ratio": 0,
    "lora_r": 1,
    "lora_alpha": 1,
    "lora_dropout": 0,
    "weight_decay": 0,
    "max_grad_norm": 0,
    "ddp_timeout": 1,
    "save_steps": 1,
    "save_total_limit": 1,
}


def _spelled(name: str) -> str:
    return "--" + name.replace("_", "-")
