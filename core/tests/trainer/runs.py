"""A small training run with the tiny model, for tests of the trainer as a whole."""

from __future__ import annotations

import json
from pathlib import Path

from tiny_policy import make_model, make_tokenizer

ROWS = [{"prompt": f"{a}+{b}=", "answer": str(a + b)} for a in range(4) for b in range(4)]


def count_digits(completions, **kwargs):
    """Varies within a group, whatever the model writes."""
    return [sum(character.isdigit() for character in text) / 4 for text in completions]


CONSTRUCTOR = (
    "reward_processing_classes",
    "peft_config",
    "callbacks",
    "optimizers",
    "tools",
    "rollout_func",
    "environment_factory",
    "quantization_config",
)


def make_trainer(
    output_dir, reward_funcs=count_digits, *, rows=ROWS, eval_rows=None, model=None, tokenizer=None, **more
):
    """A GRPOTrainer on CPU: 2 prompts x 4 completions a step, 8 tokens."""
    from datasets import Dataset
    from plaudit.grpo import GRPOConfig, GRPOTrainer

    constructor = {name: more.pop(name) for name in CONSTRUCTOR if name in more}
    settings = {
        "output_dir": str(output_dir),
        "use_cpu": True,
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "per_device_eval_batch_size": 8,
        "max_completion_length": 8,
        "learning_rate": 3e-3,
        "max_steps": 2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        **more,
    }
    return GRPOTrainer(
        model=make_model() if model is None else model,
        reward_funcs=reward_funcs,
        args=GRPOConfig(**settings),
        train_dataset=Dataset.from_list(rows) if isinstance(rows, list) else rows,
        eval_dataset=Dataset.from_list(eval_rows) if isinstance(eval_rows, list) else eval_rows,
        processing_class=make_tokenizer() if tokenizer is None else tokenizer,
        **constructor,
    )


def metrics_of(output_dir) -> list[dict]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (Path(output_dir) / "metrics.jsonl").read_text().splitlines()]


def steps_of(output_dir) -> list[dict]:
    """The lines of training steps."""
    return [line for line in metrics_of(output_dir) if "reward" in line]
