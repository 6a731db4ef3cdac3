"""One training run of the quickstart task by one engine, in its own process; prints one JSON line. See learning.py."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from typing import Any

import torch
from datasets import Dataset
from plaudit import load_reward
from plaudit_quickstart import data
from plaudit_quickstart.evaluate import MAX_NEW_TOKENS, accuracy
from plaudit_quickstart.model import path
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from transformers.trainer_callback import PrinterCallback


class Stopwatch(TrainerCallback):
    """CPU and wall seconds of training without the accuracy checks inside it, and the accuracies by step."""

    def __init__(self, check: Any, every: int) -> None:
        self.check, self.every = check, every
        self.curve: dict[int, float] = {}
        self.cpu_s = self.wall_s = 0.0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start."""
        self._began = time.process_time(), time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop, look at the accuracy now and then, and start again."""
        self.pause()
        if self.every and state.global_step % self.every == 0:
            self.curve[state.global_step] = self.check()
        self.on_train_begin(args, state, control)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Stop."""
        self.pause()

    def pause(self) -> None:
        """Add what has passed since the start."""
        self.cpu_s += time.process_time() - self._began[0]
        self.wall_s += time.perf_counter() - self._began[1]


VLLM = {"use_vllm": True, "vllm_gpu_memory_utilization": 0.1, "vllm_max_model_length": 128}


def keep_vllm_weights() -> None:
    """On a CPU vLLM packs weights and forgets them; TRL pushes new ones, so they are kept. Ours does so by itself."""
    import vllm.model_executor.layers.utils as layers

    def keep(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    layers.dispatch_cpu_unquantized_gemm = keep


def engine(name: str) -> tuple[Any, Any]:
    """The configuration and trainer classes of an engine."""
    if name == "plaudit":
        from plaudit.grpo import GRPOConfig, GRPOTrainer
    else:
        from trl import GRPOConfig, GRPOTrainer
    return GRPOConfig, GRPOTrainer


def config_values(arguments: argparse.Namespace, folder: str) -> dict[str, Any]:
    """The same settings for both engines: 16 prompts x 8 completions a step by default, on-policy, no KL."""
    return {
        "output_dir": folder,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "num_generations": arguments.generations,
        "per_device_train_batch_size": arguments.prompts * arguments.generations,
        "max_completion_length": MAX_NEW_TOKENS,
        "learning_rate": arguments.lr,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 5,
        "weight_decay": 0.0,
        "max_steps": arguments.steps,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "seed": arguments.seed,
        "disable_tqdm": True,
        **(VLLM if arguments.vllm else {}),
    }


def main() -> None:
    """Train once and print what came of it."""
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    model = AutoModelForCausalLM.from_pretrained(path(), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(path(), padding_side="left")
    test = data.addition("test", size=arguments.rows)

    def measure(sample: bool) -> float:
        return accuracy(model, tokenizer, test, sample=sample)

    stopwatch = Stopwatch(lambda: measure(True), arguments.check_every)
    config_class, trainer_class = engine(arguments.engine)
    if arguments.vllm and arguments.engine == "trl":
        keep_vllm_weights()
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            model=model,
            args=config_class(**config_values(arguments, folder)),
            processing_class=tokenizer,
            train_dataset=Dataset.from_list(data.addition("train", size=20_000, seed=arguments.seed)),
            reward_funcs=[load_reward("plaudit-quickstart:addition")],
            callbacks=[stopwatch],
        )
        trainer.remove_callback(PrinterCallback)
        before = {"greedy": measure(False), "sampled": measure(True)}
        trainer.train()
    report = {
        "engine": arguments.engine,
        "seed": arguments.seed,
        "steps": arguments.steps,
        "before": before,
        "after": {"greedy": measure(False), "sampled": measure(True)},
        "sampled_by_step": stopwatch.curve,
        "cpu_s_a_step": stopwatch.cpu_s / arguments.steps,
        "wall_s_a_step": stopwatch.wall_s / arguments.steps,
    }
    print(json.dumps(report))


def parse() -> argparse.Namespace:
    """The run's settings, as learning.py passes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=["plaudit", "trl"])
    for name, default in {"seed": 0, "steps": 100, "prompts": 16, "generations": 8, "threads": 1, "rows": 512}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--check-every", type=int, default=0, help="steps between accuracy checks; 0 = none")
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--vllm", action="store_true", help="generate with vLLM in the process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
