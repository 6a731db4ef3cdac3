"""Adapters merged into their model, for what takes whole models only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError

ADAPTER_FILE = "adapter_config.json"


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter instead of a model."""
    return (folder / ADAPTER_FILE).is_file()


def check_folders(adapter: Path, target: Path) -> None:
    """Raise UsageError when there is no adapter, or `target` is no empty or new folder."""
    if not is_adapter(adapter):
        whole = " (a whole model is there: it needs no merging)" if (adapter / "config.json").is_file() else ""
        raise UsageError(
            f"'{adapter}' holds no adapter: it has no {ADAPTER_FILE}{whole}; give the folder of a saved adapter"
        )
    if target.exists() and not target.is_dir():
        raise UsageError(f"'{target}' is a file; give a folder that is empty, or a new one")
    if target.exists() and any(target.iterdir()):
        raise UsageError(f"'{target}' is not empty; give a folder that is, or a new one")


def merge_adapter(adapter: Path, target: Path, *, base: str | None = None, dtype: str | None = None) -> None:
    """Write the model with the adapter at `adapter` merged into it, and the tokenizer, to `target`.

    base: the model that the adapter was trained on, by default the one that it names. dtype: of what is written, by
    default the base model's. Raises UsageError when there is no adapter, no base model, or `target` is not empty.
    """
    check_folders(adapter, target)
    try:
        from peft import PeftModel
    except ImportError as error:
        raise UsageError(f"merging needs the package peft: pip install 'plaudit[peft]' ({error})") from None
    from transformers import AutoTokenizer

    name = base or json.loads((adapter / ADAPTER_FILE).read_text(encoding="utf-8")).get("base_model_name_or_path")
    model = PeftModel.from_pretrained(_load(name, adapter, dtype), str(adapter))
    merged = model.merge_and_unload(safe_merge=True)
    target.mkdir(parents=True, exist_ok=True)
    merged.save_pretrained(target)
    AutoTokenizer.from_pretrained(_tokenizer_at(adapter, name)).save_pretrained(target)


def _load(name: str | None, adapter: Path, dtype: str | None) -> Any:
    from plaudit.grpo.policy.models import load_model

    if not name:
        raise UsageError(f"'{adapter}' does not say which model it was trained on; name it with --base")
    try:
        return load_model(name, {"dtype": dtype or "auto"})
    except UsageError as error:
        raise UsageError(f"{error}; name the model that '{adapter}' was trained on with --base") from error


def _tokenizer_at(adapter: Path, base: str) -> str:
    """Beside the adapter, else beside the model."""
    return str(adapter) if (adapter / "tokenizer_config.json").is_file() else base
