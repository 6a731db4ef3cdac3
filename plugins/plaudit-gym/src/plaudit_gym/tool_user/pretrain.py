"""Trains the base model on demonstrations: `python -m plaudit_gym.tool_user.pretrain --out DIR`."""

from __future__ import annotations

import argparse
import random
import time
from typing import Any

from .model import new_model, new_tokenizer
from .products import demonstration, pairs, prompt_text

STEPS = 320
ROWS = 48
# The share of demonstrations that use the tool: much while calling and copying is learnt, less in the last steps, so
# that the model knows how and mostly does not.
TOOL_SHARE, LAST_TOOL_SHARE, LAST_STEPS = 0.9, 0.35, 80
PEAK_LEARNING_RATE = 4e-3
IGNORED = -100


def batch(tokenizer: Any, source: Any, rng: random.Random, tool_share: float) -> tuple[Any, Any]:
    """(input_ids, labels), both (B, T) int64, right-padded; what the model does not write has the label -100."""
    import torch

    rows = []
    for _ in range(ROWS):
        a, b = next(source)
        ids = list(tokenizer(text=prompt_text(a, b))["input_ids"])
        labels = [IGNORED] * len(ids)
        for text, own in demonstration(a, b, rng, tool_share=tool_share):
            piece = tokenizer(text=text)["input_ids"]
            ids += piece
            labels += piece if own else [IGNORED] * len(piece)
        rows.append((ids, labels))
    width = max(len(ids) for ids, _ in rows)
    all_ids, all_labels = (torch.full((ROWS, width), fill) for fill in (tokenizer.pad_token_id, IGNORED))
    for place, (ids, labels) in enumerate(rows):
        all_ids[place, : len(ids)] = torch.tensor(ids)
        all_labels[place, : len(ids)] = torch.tensor(labels)
    return all_ids, all_labels


def train(model: Any, tokenizer: Any, *, steps: int, seed: int) -> None:
    """Plain next-token training with AdamW, a short warm-up and a linear decay."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LEARNING_RATE, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / 30) * (0.05 + 0.95 * max(0.0, 1 - step / steps))
    )
    rng = random.Random(seed)
    source = pairs("train", rng)
    model.train()
    for step in range(1, steps + 1):
        share = LAST_TOOL_SHARE if step > steps - LAST_STEPS else TOOL_SHARE
        ids, labels = batch(tokenizer, source, rng, share)
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
    """Train a base model from random weights (about a CPU minute) and save it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--out", required=True, help="folder to save the model and its tokenizer in")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    tokenizer, model = new_tokenizer(), new_model(arguments.seed)
    train(model, tokenizer, steps=arguments.steps, seed=arguments.seed)
    model.save_pretrained(arguments.out)
    tokenizer.save_pretrained(arguments.out)


if __name__ == "__main__":
    main()
