"""The configurations that are trained by TRL and by Plaudit side by side, and how far apart the two come out."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from side_by_side import compared_names, run_plaudit, run_trl
from tiny_policy import make_model, make_tokenizer

FEATURES = {
    "default": {},
    "grpo": {"loss_type": "grpo"},
    "bnpo-batch-beta": {"loss_type": "bnpo", "scale_rewards": "batch", "beta": 0.04},
    "dr_grpo-none": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "gdpo-sequence": {
        "multi_objective_aggregation": "normalize_then_sum",
        "importance_sampling_level": "sequence",
        "loss_type": "grpo",
        "num_iterations": 2,
        "beta": 0.04,
    },
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0, "num_iterations": 2},
    "sapo": {"loss_type": "sapo", "num_iterations": 2},
    "sapo-temperatures": {
        "loss_type": "sapo",
        "sapo_temperature_pos": 1.5,
        "sapo_temperature_neg": 2.0,
        "num_iterations": 2,
    },
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "num_iterations": 2},
    "vespo": {"loss_type": "vespo", "num_iterations": 2},
    "vespo-shapes": {
        "loss_type": "vespo",
        "vespo_k_pos": 1.5,
        "vespo_lambda_pos": 2.5,
        "vespo_k_neg": 2.0,
        "vespo_lambda_neg": 1.5,
        "num_iterations": 2,
    },
    "accumulation": {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4, "loss_type": "dapo"},
    "long-cycle": {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "steps_per_generation": 4,
        "num_iterations": 2,
        "beta": 0.04,
        "use_bias_correction_kl": False,
    },
    "spg-above-ga": {"per_device_train_batch_size": 4, "steps_per_generation": 3, "num_generations": 3},
    "truncated": {"mask_truncated_completions": True, "loss_type": "grpo", "num_iterations": 2},
    "temperature-delta": {"temperature": 0.7, "delta": 1.1, "epsilon": 0.05, "num_iterations": 3},
    "entropy": {"entropy_coef": 0.05, "gradient_accumulation_steps": 2, "per_device_train_batch_size": 4},
    "adaptive": {"use_adaptive_entropy": True, "entropy_coef": 0.02, "entropy_target": 3.0},
    "adaptive-bounds": {
        "use_adaptive_entropy": True,
        "entropy_coef": 0.02,
        "entropy_target": 9.0,
        "entropy_coef_delta": 0.01,
        "entropy_coef_min": 0.01,
        "entropy_coef_max": 0.04,
    },
    # Where the quantile falls on equal entropies (the first tokens of a group), rounding decides; not in these steps.
    "top-entropy": {"top_entropy_quantile": 0.2, "num_iterations": 2, "max_steps": 4},
    "off-policy": {"off_policy_mask_threshold": 0.001, "num_iterations": 3},
    "moving-reference": {"beta": 0.2, "sync_ref_model": True, "ref_model_sync_steps": 2, "ref_model_mixup_alpha": 0.6},
    "window": {"logging_steps": 2, "max_steps": 4, "num_iterations": 2},
}
"""What the product leaves out, each by itself."""

AXES = {
    "loss_type": ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo"),
    "multi_objective_aggregation": ("sum_then_normalize", "normalize_then_sum"),
    "scale_rewards": ("group", "batch", "none"),
    "importance_sampling_level": ("token", "sequence"),
    "beta": (0.0, 0.04),
    "lora": (False, True),
}


def product() -> dict[str, dict]:
    """All 384 combinations of the axes, by a name; each batch is learnt from twice, so that ratios leave 1.

    Adam divides a gradient by its size, also one that is float32 rounding of the advantages; its epsilon is above that.
    """
    made = {}
    for values in itertools.product(*AXES.values()):
        options = dict(zip(AXES, values, strict=True))
        name = "-".join(map(str, values[:4])) + f"-beta{options['beta']}" + ("-lora" if options["lora"] else "-full")
        made[name] = {**options, "num_iterations": 2, "adam_epsilon": 1e-6}
    return made


def save_model(folder: Path) -> str:
    """The policy that all begin with, in float64. From a folder, because TRL loads its reference from where it lies."""
    make_model(dtype=torch.float64).save_pretrained(folder)
    return str(folder)


def train_both(model: str, folder: Path, options: dict):
    """What TRL and Plaudit made of the options, a run each."""
    options = {"model_init_kwargs": {"dtype": "auto"}, **options}
    lora = options.pop("lora", False)
    found = []
    for run in (run_trl, run_plaudit):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            adapter = adapter_settings() if lora else None
            found.append(run(model, make_tokenizer(), folder / run.__name__, peft_config=adapter, **options))
    return found


def adapter_settings():
    from peft import LoraConfig

    return LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", init_lora_weights=False)


@dataclass(frozen=True)
class Distance:
    """The worst difference over all steps, relative to TRL's value (above 0.1; below, to 0.1)."""

    loss: float
    """Relative to the largest loss of the run, or to 0.1: a loss is a mean of terms of both signs, and may be tiny."""
    grad_norm: float
    metrics: float
    metric: str
    """The name of the metric that differs most."""
    weights: float
    """Relative to the largest weight of a tensor."""

    @property
    def worst(self) -> float:
        return max(self.loss, self.grad_norm, self.metrics, self.weights)


def distance(theirs, ours) -> Distance:
    """How far two runs lie apart. A step or a name that one of them lacks is infinitely far."""
    steps = list(zip(theirs.logs, ours.logs, strict=True))
    largest = max(0.1, *(abs(one["loss"]) for one, _ in steps))
    by_name: dict[str, float] = {}
    for one, other in steps:
        for name in compared_names(one, other):
            scale = largest if name == "loss" else 0.1
            by_name[name] = max(by_name.get(name, 0.0), relative(one.get(name), other.get(name), scale))
    loss, grad_norm = by_name.pop("loss"), by_name.pop("grad_norm")
    metric = max(by_name, key=by_name.__getitem__)
    if theirs.weights.keys() != ours.weights.keys():
        return Distance(loss, grad_norm, by_name[metric], metric, float("inf"))
    weights = max(
        ((value - ours.weights[name]).abs().max() / value.abs().max().clamp_min(1e-30)).item()
        for name, value in theirs.weights.items()
    )
    return Distance(loss, grad_norm, by_name[metric], metric, weights)


def relative(one, other, scale: float) -> float:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        error = abs(one - other) / max(abs(one), scale)
        return error if error == error else float("inf")  # NaN is equal to nothing
    return 0.0 if one == other else float("inf")
