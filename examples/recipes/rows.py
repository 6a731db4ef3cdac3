"""Data preparation for the recipes: a dataset of the hub into rows with `prompt` and what the rewards need."""

from __future__ import annotations

from typing import Any


def mbpp(
    split: str = "train", *, path: str = "google-research-datasets/mbpp", config: str | None = "full"
) -> list[dict[str, Any]]:
    """Rows of `prompt` and `tests`, in the form of the verifier `code`.

    The prompt shows the first test, which names the function and its arguments; the others are not shown. A row with
    fewer than two tests is left out, because a program could write down what it was shown.
    """
    from datasets import load_dataset

    rows = load_dataset(path, config, split=split)
    return [
        {
            "prompt": f"{row['text']}\nYour program must pass this test among others:\n{row['test_list'][0]}",
            "tests": {"mode": "assert", "tests": row["test_list"], "setup": row["test_setup_code"]},
        }
        for row in rows
        if len(row["test_list"]) > 1
    ]
