"""Trains the base model on the sloppy teacher's demonstrations: `python -m plaudit_quickstart.pretrain --out DIR`."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from . import data
from .demonstrations import demonstration
from .evaluate import accuracy
from .model import new_model, new_tokenizer
from .problems import ADDITION, LARGER, pairs

STEPS = 1200
SLOPPINESS = {"addition": 0.7, "larger": 0.6}
ROWS = {"addition": 64, "larger": 16}
PEAK_LEARNING_RATE = 4e-3
IGNORED = -100


def batches(tokenizer: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    """Endless batches (input_ids, labels), both (B, T) int64, right-padded; prompt and padding have label -100."""
    rng = random.Random(seed)
    sources = {task: pairs(task, "train", rng) for task in (ADDITION, LARGER)}
    while True:
        prompts, completions = [], []
        for task, source in sources.items():
            for a, b in islice(source, ROWS[task.name]):
                prompts.append(task.prompt(a, b))
                completions.append(demonstration(task, a, b, rng, sloppiness=SLOPPINESS[task.name]))
        yield _padded(tokenizer(prompts)["input_ids"], tokenizer(completions)["input_ids"], tokenizer)


def _padded(prompts: list[list[int]], completions: list[list[int]], tokenizer: Any) -> tuple[Any, Any]:
    import torch

    rows = [
        (prompt, [*completion, tokenizer.eos_token_id]) for prompt, completion in zip(prompts, completions, strict=True)
    ]
    width = max(len(prompt) + len(completion) for prompt, completion in rows)
    ids = torch.full((len(rows), width), tokenizer.pad_token_id)
    labels = torch.full((len(rows), width), IGNORED)
    for index, (prompt, completion) in enumerate(rows):
        end = len(prompt) + len(completion)
        ids[index, :end] = torch.tensor(prompt + completion)
        labels[index, len(prompt) : end] = torch.tensor(completion)
    return ids, labels


def train(model: Any, tokenizer: Any, *, steps: int, seed: int) -> None:
    """Plain next-token training with AdamW, a short warm-up and a linear decay."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 50) * (0.05 + 0.95 * max(0.0, 1 - step / steps))
    )
    model.train()
    for step, (ids, labels) in zip(range(1, steps + 1), batches(tokenizer, seed), strict=False):
        logits = model(input_ids=ids).logits
        loss = torch.nn.functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.4f}, {time.process_time():.0f} CPU s", flush=True)


def main() -> None:
    """Train a base model from random weights (about two CPU minutes) and save it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", required=True, help="folder to save the model and its tokenizer in")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    tokenizer, model = new_tokenizer(), new_model(arguments.seed)
    train(model, tokenizer, steps=arguments.steps, seed=arguments.seed)
    for dataset in (data.addition, data.larger):
        rows = dataset("test")
        greedy, sampled = (accuracy(model, tokenizer, rows, sample=sample) for sample in (False, True))
        print(f"{rows[0]['task']}: greedy {greedy:.3f}, sampled {sampled:.3f} on {len(rows)} held-out problems")
    model.save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)


if __name__ == "__main__":
    main()
