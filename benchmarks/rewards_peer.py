"""TRL's reward code on given rollouts, for rewards.py: its trainer with the quickstart's model, never trained."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

GIVE_UP_S = 60.0


class Trl:
    """One GRPOTrainer whose reward functions are exchanged."""

    def __init__(self) -> None:
        import torch
        from datasets import Dataset
        from plaudit_quickstart.model import path
        from trl import GRPOConfig, GRPOTrainer

        torch.set_num_threads(1)
        args = GRPOConfig(
            output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False, num_generations=8, per_device_train_batch_size=8,
            report_to=[], disable_tqdm=True,
        )  # fmt: skip
        rows = Dataset.from_list([{"prompt": "1+1=", "answer": "2"}] * 8)
        self._make = lambda functions: GRPOTrainer(str(path()), functions, args=args, train_dataset=rows)

    def rewards(self, functions: Sequence[Callable[..., Any]], completions: Sequence[str]) -> float:
        """Wall seconds of `_calculate_rewards`."""
        trainer = self._make(list(functions))
        inputs = [{"prompt": f"What is {i}+{i}?", "answer": str(2 * i)} for i in range(len(completions))]
        prompts = [row["prompt"] for row in inputs]
        started = time.perf_counter()
        trainer._calculate_rewards(inputs, prompts, list(completions), [[1, 2, 3]] * len(completions))
        return time.perf_counter() - started

    def environment_rewards(self, environments: Sequence[Any]) -> float:
        """Wall seconds of get_reward, awaited in a list comprehension as TRL's trainer does."""

        async def get_reward(environments: Sequence[Any], **columns: Any) -> list[float]:
            return [await environment.get_reward() for environment in environments]

        trainer = self._make([get_reward])
        trainer.environments = list(environments)
        inputs = [{"prompt": "x"} for _ in environments]
        started = time.perf_counter()
        trainer._calculate_rewards(inputs, ["x"] * len(inputs), ["x"] * len(inputs), [[1]] * len(inputs))
        return time.perf_counter() - started

    def hostile_answers(self, answers: Sequence[str]) -> str:
        """Seconds of TRL's accuracy_reward on these answers in the main and in a worker thread, or that it hung."""
        return ", ".join(f"{where}: {_limited(where, list(answers))}" for where in ("main", "thread"))


def _limited(where: str, answers: list[str]) -> str:
    process = multiprocessing.get_context("spawn").Process(target=_accuracy, args=(where, answers))
    started = time.perf_counter()
    process.start()
    process.join(GIVE_UP_S)
    if process.is_alive():
        process.kill()
        return f"hung past {GIVE_UP_S:.0f} s"
    return f"{time.perf_counter() - started:.1f} s with start"


def _accuracy(where: str, answers: list[str]) -> None:
    from trl.rewards import accuracy_reward

    messages = [[{"role": "assistant", "content": answer}] for answer in answers]
    solutions = [rf"\boxed{{{2 * i}}}" for i in range(len(answers))]
    if where == "main":
        accuracy_reward(messages, solutions)
    else:
        asyncio.run(asyncio.to_thread(accuracy_reward, messages, solutions))
