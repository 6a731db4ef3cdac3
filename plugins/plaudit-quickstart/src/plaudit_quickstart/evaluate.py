"""Accuracy of a model on held-out problems: `python -m plaudit_quickstart.evaluate [MODEL]`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from . import data, verifiers
from .model import path

MAX_NEW_TOKENS = 40


def accuracy(model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], *, sample: bool, seed: int = 0) -> float:
    """Share of the rows that are answered rightly, greedily or by sampling at temperature 1.

    Uses transformers' `generate()`, so that it checks Plaudit's own generator too. The random state is left as found.
    """
    import torch

    training = model.training
    model.eval()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        right = sum(_right(model, tokenizer, rows[start : start + 256], sample) for start in range(0, len(rows), 256))
    model.train(training)
    return right / len(rows)


def _right(model: Any, tokenizer: Any, rows: Sequence[Mapping[str, Any]], sample: bool) -> int:
    inputs = tokenizer([row["prompt"] for row in rows], return_tensors="pt", padding=True).to(model.device)
    drawing = {"do_sample": True, "temperature": 1.0, "top_k": 0} if sample else {"do_sample": False}
    written = model.generate(
        input_ids=inputs["input_ids"],
        attention_mask=inputs["attention_mask"],
        max_new_tokens=MAX_NEW_TOKENS,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **drawing,
    )
    texts = tokenizer.batch_decode(written[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    judges = {"addition": verifiers.addition, "larger": verifiers.larger}
    return sum(judges[row["task"]](text, row["answer"]).score == 1.0 for row, text in zip(rows, texts, strict=True))


def main() -> None:
    """Print the greedy and sampled accuracy of a saved model on both tasks' test splits."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("model", nargs="?", default=path(), help="folder of a model (default: the base model)")
    parser.add_argument("--rows", type=int, default=512, help="held-out problems a task (default: 512)")
    arguments = parser.parse_args()

    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(arguments.model, padding_side="left")
    for name, dataset in {"addition": data.addition, "larger": data.larger}.items():
        rows = dataset("test", size=arguments.rows)
        greedy, sampled = (accuracy(model, tokenizer, rows, sample=sample) for sample in (False, True))
        print(f"{name:10s} greedy {greedy:6.1%}   sampled {sampled:6.1%}   ({len(rows)} held-out problems)")


if __name__ == "__main__":
    main()
