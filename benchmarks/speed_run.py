"""One measurement of one engine on one workload, in a process of its own; prints one JSON line. See speed.py."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import replace
from typing import Any

import torch
from datasets import Dataset
from forced_lengths import force
from learning_run import engine
from transformers import TrainerCallback
from transformers.trainer_callback import PrinterCallback
from workloads import WORKLOADS, Workload, build_model, build_rewards, build_rows, build_tokenizer

TUNED = {"bf16": False, "gradient_checkpointing": False}
SETTINGS = {"plaudit": {}, "trl": TUNED, "trl-defaults": {}}
"""What each competitor sets: TRL tuned for a CPU, and both as they come."""


class Stopwatch(TrainerCallback):
    """CPU and wall seconds of the steps after the first `warmup`, and of forward and backward within them."""

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.passes = 0.0
        self.began: tuple[float, float] | None = None
        self.curve: list[float] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start, if there is no warm-up."""
        if not self.warmup:
            self.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start after the warm-up."""
        if state.global_step == self.warmup:
            self.start()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Keep the mean reward."""
        if "reward" in logs:
            self.curve.append(float(logs["reward"]))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop."""
        assert self.began is not None
        self.cpu_s = time.process_time() - self.began[0]
        self.wall_s = time.perf_counter() - self.began[1]

    def start(self) -> None:
        """Begin to measure."""
        self.passes = 0.0
        self.began = time.process_time(), time.perf_counter()

    def watch(self, owner: Any, name: str) -> None:
        """Count the CPU seconds of this method as part of the training pass."""
        original = getattr(owner, name)

        def timed(*args: Any, **more: Any) -> Any:
            began = time.process_time()
            try:
                return original(*args, **more)
            finally:
                self.passes += time.process_time() - began

        setattr(owner, name, timed)


def parts(workload: Workload, seed: int) -> dict[str, Any]:
    """Model, tokenizer, rows and rewards of a workload with random weights."""
    count = workload.prompts * (workload.steps + workload.warmup) + workload.prompts
    return {
        "model": build_model(workload.vocabulary, workload.hidden, workload.layers, seed=seed),
        "processing_class": build_tokenizer(workload.vocabulary),
        "train_dataset": Dataset.from_list(build_rows(workload.vocabulary, workload.prompt, count, seed=seed)),
        "reward_funcs": build_rewards(workload.rewards),
    }


def quickstart_parts(seed: int) -> dict[str, Any]:
    """The base model, sums and reward of the quickstart."""
    from plaudit import load_reward
    from plaudit_quickstart import data
    from plaudit_quickstart.model import path
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return {
        "model": AutoModelForCausalLM.from_pretrained(path(), dtype=torch.float32),
        "processing_class": AutoTokenizer.from_pretrained(path(), padding_side="left"),
        "train_dataset": Dataset.from_list(data.addition("train", size=5_000, seed=seed)),
        "reward_funcs": [load_reward("plaudit-quickstart:addition")],
    }


def config_values(workload: Workload, competitor: str, seed: int, folder: str) -> dict[str, Any]:
    """The same settings for all, but for those that a competitor is about."""
    return {
        "output_dir": folder,
        "use_cpu": True,
        "num_generations": workload.generations,
        "per_device_train_batch_size": workload.prompts * workload.generations,
        "max_completion_length": workload.completion,
        "learning_rate": 2e-4,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 5,
        "weight_decay": 0.0,
        "max_steps": workload.steps + workload.warmup,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "seed": seed,
        "disable_tqdm": True,
        **SETTINGS[competitor],
    }


def measure(name: str, competitor: str, seed: int, changes: dict[str, Any]) -> dict[str, Any]:
    """Train for the workload's steps and say what a step cost."""
    workload = replace(WORKLOADS[name], **changes)
    config_class, trainer_class = engine("plaudit" if competitor == "plaudit" else "trl")
    stopwatch = Stopwatch(workload.warmup)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            args=config_class(**config_values(workload, competitor, seed, folder)),
            callbacks=[stopwatch],
            **(quickstart_parts(seed) if name == "quickstart" else parts(workload, seed)),
        )
        trainer.remove_callback(PrinterCallback)
        if workload.lengths is not None:
            force("plaudit" if competitor == "plaudit" else "trl", trainer, workload.lengths)
        stopwatch.watch(trainer, "compute_loss")
        stopwatch.watch(trainer.accelerator, "backward")
        trainer.train()
    lengths = [line["completions/mean_length"] for line in trainer.state.log_history if "loss" in line]
    report = {
        "workload": name,
        "competitor": competitor,
        "seed": seed,
        "cpu_s_a_step": stopwatch.cpu_s / workload.steps,
        "wall_s_a_step": stopwatch.wall_s / workload.steps,
        "pass_cpu_s_a_step": stopwatch.passes / workload.steps,
        "mean_length": sum(lengths) / len(lengths),
    }
    if name == "quickstart":
        last = stopwatch.curve[-10:]
        report["reward"] = {"first": stopwatch.curve[0], "last_10_steps": sum(last) / len(last)}
    return report


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("competitor", choices=list(SETTINGS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--change", type=json.loads, default={}, help="fields of the workload to change, as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(json.dumps(measure(arguments.workload, arguments.competitor, arguments.seed, arguments.change)))


if __name__ == "__main__":
    main()
