"""Whole runs with the colocated engine."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("vllm")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from plaudit.cli import main  # noqa: E402
from plaudit.errors import UsageError  # noqa: E402
from plaudit.grpo import GRPOConfig, GRPOTrainer  # noqa: E402

ROWS = [{"prompt": f"{a}+{b}="} for a in range(4) for b in range(4)]


def digits(completions, **columns):
    return [sum(character.isdigit() for character in text) / 4 for text in completions]


@pytest.fixture
def trainer(tmp_path, tokenizer):
    """Makes a trainer of 2 prompts x 4 completions with vLLM; its engine is stopped after the test."""
    made = []

    def make(model, *, rows=ROWS, peft_config=None, **more):
        settings = {
            "output_dir": str(tmp_path / "run"),
            "use_cpu": True,
            "use_vllm": True,
            "vllm_gpu_memory_utilization": 0.05,
            "num_generations": 4,
            "per_device_train_batch_size": 8,
            "per_device_eval_batch_size": 8,
            "max_completion_length": 8,
            "learning_rate": 3e-3,
            "max_steps": 3,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            **more,
        }
        data = Dataset.from_list(rows)
        made.append(GRPOTrainer(model, digits, GRPOConfig(**settings), data, data, tokenizer, peft_config=peft_config))
        return made[-1]

    yield make
    for one in made:
        one.source.collector.writer.close()


def logged(trainer, name):
    return [entry[name] for entry in trainer.state.log_history if name in entry]


NARROWED = {
    "plain": {},
    "split": {"per_device_train_batch_size": 4, "steps_per_generation": 4, "num_iterations": 2, "max_steps": 12},
    "temperature": {"temperature": 0.7},
    "top_k": {"top_k": 20},
    "top_p": {"top_k": 60, "top_p": 0.8, "min_p": 0.01},
    "grammar": {"top_k": 60, "vllm_structured_outputs_regex": "[0-9a-c]{2,6}"},
}


@pytest.mark.parametrize("case", NARROWED)
def test_the_engine_stays_with_the_policy_while_it_learns(case, trainer, build_model):
    model = build_model()
    before = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    run = trainer(model, **NARROWED[case])
    run.train()
    assert len(logged(run, "sampling/sampling_logp_difference/max")) >= 2
    assert max(logged(run, "sampling/sampling_logp_difference/max")) < 1e-3
    ratios = logged(run, "sampling/importance_sampling_ratio/mean")
    assert ratios == pytest.approx([1.0] * len(ratios), abs=2e-3)
    assert any(not torch.equal(before[name], weight) for name, weight in model.named_parameters())
    assert "eval_reward" in run.evaluate()


def test_an_adapter(trainer, build_model):
    from peft import LoraConfig

    adapter = LoraConfig(r=4, target_modules=["q_proj", "o_proj"], task_type="CAUSAL_LM", init_lora_weights=False)
    run = trainer(build_model(tied=False), peft_config=adapter, beta=0.05)
    frozen = run.model.get_base_model().model.layers[0].self_attn.q_proj.base_layer.weight.clone()
    run.train()
    assert max(logged(run, "sampling/sampling_logp_difference/max")) < 1e-3
    assert torch.equal(run.model.get_base_model().model.layers[0].self_attn.q_proj.base_layer.weight, frozen)


def test_a_resumed_run_ends_as_one_that_never_stopped(trainer, build_model, tmp_path):
    whole = trainer(build_model(), max_steps=4, save_strategy="steps", save_steps=2, output_dir=str(tmp_path / "a"))
    whole.train()
    weights = {name: weight.detach().clone() for name, weight in whole.model.named_parameters()}
    whole.source.collector.writer.close()
    again = trainer(build_model(seed=5), max_steps=4, output_dir=str(tmp_path / "b"))
    again.train(resume_from_checkpoint=str(tmp_path / "a" / "checkpoint-2"))
    for name, weight in again.model.named_parameters():
        torch.testing.assert_close(weight, weights[name], rtol=1e-4, atol=1e-6)


def test_prompts_that_leave_no_room_are_refused_before_training(trainer, build_model):
    rows = [*ROWS[:7], {"prompt": "1+" * 20}]
    with pytest.raises(UsageError, match=r"has 40 tokens but the model's context leaves 24"):
        trainer(build_model(), rows=rows, vllm_max_model_length=32)


def test_the_quickstart_learns(tmp_path, monkeypatch):
    from pathlib import Path

    example = Path(__file__).parents[2] / "examples" / "quickstart.toml"
    changes = {
        "output_dir": str(tmp_path / "run"),
        "config.use_vllm": "true",
        "config.vllm_gpu_memory_utilization": "0.05",
        "config.max_steps": "30",
        "config.log_completions": "false",
        "data.eval_size": "128",
    }
    command = [part for name, value in changes.items() for part in ("--set", f"{name}={value}")]
    assert main(["train", str(example), *command]) == 0
    heldout = json.loads((tmp_path / "run" / "heldout.json").read_text(encoding="utf-8"))
    means = {when: heldout[when]["means"]["addition"] for when in ("before", "after")}
    assert means["after"] > means["before"] + 0.3
