"""A model to try or compare: a plugin's, a folder, a hub id, or an adapter with the model that it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError


def load_for_inference(path: str, *, dtype: str | None = None) -> tuple[Any, Any]:
    """The model in eval mode, on the GPU if there is one, and its tokenizer. Raises UsageError when there is none."""
    import torch

    from plaudit.grpo.policy.models import load_model, load_tokenizer
    from plaudit.run.merging import ADAPTER_FILE, is_adapter
    from plaudit.run.model_files import find_model
    from plaudit.run.schema import ModelSection

    folder = Path(path).expanduser()
    if is_adapter(folder):
        base = json.loads((folder / ADAPTER_FILE).read_text(encoding="utf-8")).get("base_model_name_or_path")
        if not base:
            raise UsageError(f"'{path}' is an adapter that does not name its model; merge it: plaudit merge --base")
        model, tokenizer = load_for_inference(base, dtype=dtype)
        from peft import PeftModel

        return PeftModel.from_pretrained(model, str(folder)).eval(), tokenizer
    files = find_model(ModelSection(path=path))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = load_model(files.path, {"dtype": dtype} if dtype else {}).to(device).eval()
    return model, load_tokenizer(files.tokenizer, model)
