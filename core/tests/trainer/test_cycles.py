"""Accumulation, micro-batches a generation and iterations, in every combination: as TRL trains."""

from __future__ import annotations

import itertools
import warnings

import pytest
import torch
from side_by_side import differences, run_plaudit, run_trl

from runs import ROWS, count_digits, make_trainer, metrics_of

COMBINATIONS = list(itertools.product((1, 2, 3), (1, 2, 4), (1, 2)))


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize(("accumulation", "per_generation", "iterations"), COMBINATIONS)
def test_a_cycle_equals_trl(accumulation, per_generation, iterations, tmp_path, build_model, build_tokenizer):
    build_model(dtype=torch.float64).save_pretrained(tmp_path / "model")
    options = {
        "model_init_kwargs": {"dtype": "auto"},
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": accumulation,
        "steps_per_generation": per_generation,
        "num_iterations": iterations,
        "max_steps": 4,
        # Adam turns rounding into steps where a gradient is next to nothing.
        "optim": "sgd",
        "learning_rate": 0.1,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = run_trl(str(tmp_path / "model"), build_tokenizer(), tmp_path / "trl", **options)
        ours = run_plaudit(str(tmp_path / "model"), build_tokenizer(), tmp_path / "ours", **options)
    problems = [differences(one, other) for one, other in zip(theirs.logs, ours.logs, strict=True)]
    assert not any(problems), problems
    for name, value in theirs.weights.items():
        scale = value.abs().max().item()
        torch.testing.assert_close(ours.weights[name], value, rtol=1e-5, atol=1e-5 * scale)


def test_a_generation_batch_by_its_size_is_one_by_its_steps(tmp_path):
    runs = {"size": {"generation_batch_size": 16}, "steps": {"steps_per_generation": 4}}
    for name, options in runs.items():
        make_trainer(tmp_path / name, per_device_train_batch_size=4, max_steps=6, **options).train()
    lines = [
        [(line["loss"], line.get("reward")) for line in metrics_of(tmp_path / name) if "loss" in line] for name in runs
    ]
    assert lines[0] == lines[1]
    assert len(lines[0]) == 6


@pytest.mark.parametrize("multiple", [8, "8", "auto"])
def test_padding_to_a_multiple_changes_no_loss(multiple, tmp_path):
    for name, value in {"plain": None, "padded": multiple}.items():
        make_trainer(tmp_path / name, pad_to_multiple_of=value, max_steps=3).train()
    plain, padded = (
        [line["loss"] for line in metrics_of(tmp_path / name) if "loss" in line] for name in ("plain", "padded")
    )
    assert plain == pytest.approx(padded, abs=1e-5)


def test_several_evaluation_sets(tmp_path):
    from datasets import Dataset
    from plaudit.grpo import GRPOConfig, GRPOTrainer
    from tiny_policy import make_model, make_tokenizer

    args = GRPOConfig(
        str(tmp_path),
        use_cpu=True,
        report_to=[],
        num_generations=4,
        num_generations_eval=2,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=4,
        max_completion_length=8,
        max_steps=2,
        eval_strategy="steps",
        eval_steps=1,
        load_best_model_at_end=True,
        save_strategy="steps",
        save_steps=1,
        metric_for_best_model="eval_small_reward",
        greater_is_better=True,
    )
    trainer = GRPOTrainer(
        make_model(),
        count_digits,
        args,
        Dataset.from_list(ROWS),
        {"small": Dataset.from_list(ROWS[:3]), "rest": Dataset.from_list(ROWS[3:9])},
        make_tokenizer(),
    )
    trainer.train()
    lines = [line for line in metrics_of(tmp_path) if any(name.startswith("eval_") for name in line)]
    for prefix in ("eval_small_", "eval_rest_"):
        found = [line for line in lines if f"{prefix}reward" in line]
        assert len(found) == 2
        assert all(
            line[f"{prefix}rewards/count_digits/mean"] == pytest.approx(line[f"{prefix}reward"]) for line in found
        )
    assert trainer.state.best_metric == max(line["eval_small_reward"] for line in lines if "eval_small_reward" in line)
    assert "eval_rest_reward" in trainer.evaluate()


def test_a_resumed_adapter_goes_on_against_its_copy(tmp_path, build_model):
    """An adapter that was given is its own reference, also after a resume inside a cycle."""
    from peft import LoraConfig, get_peft_model

    def build():
        torch.manual_seed(5)
        adapter = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
        return make_trainer(tmp_path, model=get_peft_model(build_model(), adapter), **options)

    options = {"beta": 0.3, "num_iterations": 2, "max_steps": 4, "save_strategy": "steps", "save_steps": 1}
    whole = build()
    start = {n: p.detach().clone() for n, p in whole.model.named_parameters() if ".ref." in n}
    assert start
    whole.train()
    rest = build()
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    now = dict(rest.model.named_parameters())
    for name, value in whole.model.named_parameters():
        assert torch.equal(value, now[name]), name
    assert all(torch.equal(value, now[name]) for name, value in start.items())
    assert any(
        ".default." in n and not torch.equal(p, start[n.replace(".default.", ".ref.")])
        for n, p in now.items()
        if n.replace(".default.", ".ref.") in start
    )
