"""`[model.peft]` into a peft.LoraConfig."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.configuring import check_fields


def make_peft_config(values: Mapping[str, Any] | None) -> Any:
    """The LoraConfig, or None without `[model.peft]`. Raises UsageError on a wrong field or without the package."""
    if values is None:
        return None
    try:
        from peft import LoraConfig
    except ImportError:
        raise UsageError("[model.peft] needs the package peft: pip install 'plaudit[peft]'") from None
    check_fields(values, LoraConfig, "model.peft")
    try:
        return LoraConfig(**{"task_type": "CAUSAL_LM", **values})
    except (ValueError, TypeError) as error:
        raise UsageError(f"[model.peft] {' '.join(str(error).split())}") from error
