"""A real train() of TRL 1.16 beside ours, with the same completions: logged values and final weights must be equal."""

from __future__ import annotations

import warnings

import pytest
import torch
from side_by_side import differences, run_plaudit, run_trl

pytestmark = pytest.mark.peer

GRID = {
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
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence", "num_iterations": 2},
    "vespo": {"loss_type": "vespo", "num_iterations": 2},
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
    # Where the quantile falls on equal entropies (the first tokens of a group), rounding decides; not in these steps.
    "top-entropy": {"top_entropy_quantile": 0.2, "num_iterations": 2, "max_steps": 4},
    "off-policy": {"off_policy_mask_threshold": 0.001, "num_iterations": 3},
    "moving-reference": {"beta": 0.2, "sync_ref_model": True, "ref_model_sync_steps": 2, "ref_model_mixup_alpha": 0.6},
    "window": {"logging_steps": 2, "max_steps": 4, "num_iterations": 2},
}

QUICK = {"default", "gdpo-sequence", "accumulation", "long-cycle", "truncated", "entropy", "moving-reference"}


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in GRID])
def test_training_equals_trl(name, tmp_path, build_model, build_tokenizer):
    # From a folder, because TRL loads its reference model from where the policy came.
    build_model(dtype=torch.float64).save_pretrained(tmp_path / "model")
    options = {"model_init_kwargs": {"dtype": "auto"}, **GRID[name]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run_trl(str(tmp_path / "model"), build_tokenizer(), tmp_path / "trl", **options)
        ours = run_plaudit(str(tmp_path / "model"), build_tokenizer(), tmp_path / "ours", **options)
    compare(theirs, ours)


def compare(theirs, ours):
    assert len(theirs.logs) == len(ours.logs) >= 2
    problems = [differences(one, other) for one, other in zip(theirs.logs, ours.logs, strict=True)]
    assert not any(problems), problems
    for name, value in theirs.weights.items():
        scale = value.abs().max().item()
        torch.testing.assert_close(ours.weights[name], value, rtol=1e-5, atol=1e-5 * scale)


def test_evaluation_equals_trl(tmp_path, build_model, build_tokenizer):
    options: dict = {"evaluate": True, "max_steps": 2, "num_generations_eval": 2}
    theirs = run_trl(build_model(dtype=torch.float64), build_tokenizer(), tmp_path / "trl", **options)
    ours = run_plaudit(build_model(dtype=torch.float64), build_tokenizer(), tmp_path / "ours", **options)
    compare(theirs, ours)
    assert differences(theirs.evaluation, ours.evaluation) == {}
    assert ours.evaluation["eval_reward"] is not None


def test_lora_with_a_reference_equals_trl(tmp_path, build_model, build_tokenizer):
    from peft import LoraConfig

    found = []
    for run in (run_trl, run_plaudit):
        adapter = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
        model = build_model(dtype=torch.float64)
        found.append(
            run(model, build_tokenizer(), tmp_path / run.__name__, peft_config=adapter, beta=0.1, num_iterations=2)
        )
    compare(*found)
