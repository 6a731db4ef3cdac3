"""A recipe made small by `--set`: a tiny model, a few local rows, one step on a CPU; all else as it is written."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

QUESTIONS = [(f"What is {n} plus {n + 1}?", f"{n} + {n + 1} = {2 * n + 1}\n#### {2 * n + 1}") for n in range(8)]
# What a machine without a GPU cannot do.
ON_A_CPU = {"use_cpu": True, "bf16": False, "use_vllm": False, "optim": "adamw_torch"}
SMALL = {
    "num_generations": 2,
    "max_completion_length": 12,
    "max_steps": 1,
    "eval_strategy": "no",
    "save_strategy": "no",
}


def write_rows(folder: Path) -> dict[str, Path]:
    """Rows in the columns that GSM8K and MBPP have, as files where no hub is."""
    gsm8k, mbpp = folder / "gsm8k.jsonl", folder / "mbpp"
    gsm8k.write_text("".join(json.dumps({"question": q, "answer": a}) + "\n" for q, a in QUESTIONS))
    mbpp.mkdir()
    rows = [
        {
            "text": f"Add {n}.",
            "test_list": [f"assert add(0) == {n}", f"assert add(1) == {n + 1}"],
            "test_setup_code": "",
        }
        for n in range(8)
    ]
    for split in ("train", "validation"):
        (mbpp / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"openai/gsm8k": gsm8k, "./examples/recipes/rows.py:mbpp": mbpp}


def smaller(recipe: Path, model: Path, rows: Mapping[str, Path]) -> list[str]:
    """The `--set` assignments."""
    table = tomllib.loads(recipe.read_text(encoding="utf-8"))
    batch = min(table["config"]["per_device_train_batch_size"], 2)
    config = {**ON_A_CPU, **SMALL, "per_device_train_batch_size": batch, "gradient_accumulation_steps": 2}
    found = {"output_dir": "run", "model.path": str(model), "model.model_init_kwargs": {}}
    found |= {f"config.{name}": value for name, value in config.items()}
    if "data" in table:
        found["data"] = local(table["data"], rows)
    for place, task in enumerate(table.get("task", [])):
        found[f"task.{place}.data"] = local(task["data"], rows)
    for place, _ in enumerate(table.get("stage", [])):
        found[f"stage.{place}.config.max_steps"] = 1
    for watched in ("canary", "samples"):
        if watched in table:
            found[f"{watched}.every"] = 1
    return [part for key, value in found.items() for part in ("--set", f"{key}={inline(value)}")]


def local(data: Mapping[str, Any], rows: Mapping[str, Path]) -> dict[str, Any]:
    """A data section with rows of this machine, the same columns, prompts and patterns."""
    name, kept = data["name"], {key: value for key, value in data.items() if key != "max_prompt_tokens"}
    if name == "openai/gsm8k":
        hub = ("name", "config", "eval_split")
        return {key: value for key, value in kept.items() if key not in hub} | {"path": str(rows[name]), "eval_size": 2}
    if name in rows:
        return kept | {"options": {"path": str(rows[name]), "config": "default"}, "eval_size": 2}
    return kept | {"options": {"size": 8}, "eval_size": 2}


def inline(value: Any) -> str:
    """A value as TOML in one line; text in JSON's quotes is TOML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {inline(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
