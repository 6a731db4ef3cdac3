"""Checkpoints whose weights have other names than the model's parameters.

Vision-language and mixture-of-experts models are saved under the names that their published weights have;
from_pretrained translates them, but transformers' Trainer reads a checkpoint's file as it is, and would leave those
weights at what they were.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


def load_renamed(model: Any, folder: Path) -> bool:
    """Load the checkpoint's weights into the model if they need translating. Returns whether they did."""
    from transformers import PreTrainedModel

    if not isinstance(model, PreTrainedModel) or saved_names(folder) <= set(model.state_dict()):
        return False
    found = type(model).from_pretrained(folder, config=model.config, dtype=model.dtype)
    model.load_state_dict(found.state_dict())
    return True


def saved_names(folder: Path) -> set[str]:
    """The names of the weights in a checkpoint's safetensors files."""
    from safetensors import safe_open

    names: set[str] = set()
    for file in folder.glob("model*.safetensors"):
        with safe_open(file, framework="pt") as weights:
            names |= set(weights.keys())
    return names
