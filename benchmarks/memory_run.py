"""Peak memory of one training pass of one engine, in a process of its own; prints one JSON line. See memory.py."""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from datasets import Dataset
from learning_run import engine
from plaudit.rollout.protocol import Generated
from torch.profiler import ProfilerActivity, profile
from transformers.trainer_callback import PrinterCallback
from workloads import build_model, build_rewards, build_rows, build_tokenizer

COLUMNS = ("batch", "prompt", "completion", "vocabulary", "hidden", "layers")


class Written:
    """A generator of random completions of one length: what generation holds is not measured here."""

    exact = False

    def __init__(self, length: int, vocabulary: int) -> None:
        self.length, self.vocabulary = length, vocabulary

    def completion(self, place: int) -> list[int]:
        """Token ids."""
        rng = random.Random(place)
        return [rng.randrange(2, self.vocabulary) for _ in range(self.length)]

    def generate(self, requests: Sequence[Any], sampling: Any) -> Iterator[Generated]:
        """One completion for each request."""
        for request in requests:
            ids = tuple(self.completion(request.index))
            yield Generated(request.index, ids, (0.0,) * len(ids), "length")

    def refresh(self, step: int) -> None:
        """It has no weights."""

    def close(self) -> None:
        """It holds nothing."""


def inject(trainer: Any, written: Written) -> None:
    """Have the completions written by `written`, in either engine."""
    if hasattr(trainer, "source"):
        collector = trainer.source.collector
        trainer.source.collector = replace(collector, writer=replace(collector.writer, generator=written))
        return

    def single_turn(prompt_ids: Sequence[Any], *_: Any, **__: Any) -> tuple[list[list[int]], None]:
        return [written.completion(place) for place in range(len(prompt_ids))], None

    trainer._generate_single_turn = single_turn


class Pass:
    """Profiles memory from the beginning of `compute_loss` to the end of the backward pass of the last step."""

    def __init__(self, trainer: Any, step: int) -> None:
        self.trainer, self.step = trainer, step
        self.profiler = profile(activities=[ProfilerActivity.CPU], profile_memory=True)
        self.compute_loss, self.backward = trainer.compute_loss, trainer.accelerator.backward
        trainer.compute_loss, trainer.accelerator.backward = self.begin, self.end

    def begin(self, *args: Any, **more: Any) -> Any:
        """compute_loss."""
        if self.trainer.state.global_step == self.step:
            self.profiler.start()
        return self.compute_loss(*args, **more)

    def end(self, *args: Any, **more: Any) -> None:
        """backward."""
        self.backward(*args, **more)
        if self.trainer.state.global_step == self.step:
            self.profiler.stop()
            self.gradients = sum(
                parameter.grad.nbytes for parameter in self.trainer.model.parameters() if parameter.grad is not None
            )

    def peak(self) -> int:
        """The most bytes that were allocated at one time, less the gradients that stay."""
        events = self.profiler.profiler.kineto_results.events()
        changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
        now = most = 0
        for _, change in changes:
            now += change
            most = max(most, now)
        return most - self.gradients


def measure(engine_name: str, sizes: argparse.Namespace) -> dict[str, Any]:
    """The peak of the second step: the first makes the optimizer's state."""
    config_class, trainer_class = engine(engine_name)
    rows = build_rows(sizes.vocabulary, sizes.prompt, 4 * sizes.batch)
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            model=build_model(sizes.vocabulary, sizes.hidden, sizes.layers),
            reward_funcs=build_rewards(1),
            args=config_class(
                output_dir=folder,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                num_generations=2,
                per_device_train_batch_size=sizes.batch,
                max_completion_length=sizes.completion,
                max_steps=2,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=build_tokenizer(sizes.vocabulary),
        )
        trainer.remove_callback(PrinterCallback)
        inject(trainer, Written(sizes.completion, sizes.vocabulary))
        watched = Pass(trainer, step=1)
        trainer.train()
    found = {name: getattr(sizes, name) for name in COLUMNS}
    return {"engine": engine_name, **found, "peak_mb": watched.peak() / 1e6, "gradients_mb": watched.gradients / 1e6}


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=["plaudit", "trl"])
    sizes = {"batch": 4, "prompt": 64, "completion": 1024, "vocabulary": 128_000, "hidden": 256, "layers": 2}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    torch.set_num_threads(1)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.engine, arguments)))


if __name__ == "__main__":
    main()
