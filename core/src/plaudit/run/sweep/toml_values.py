"""Values of a sweep as `--set` reads them: TOML in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def toml_text(value: Any) -> str:
    """A value of a TOML file as an expression. JSON's texts, numbers and truth values are TOML's."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(toml_text(one) for one in value)}]"
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return str(value)
    return json.dumps(value, default=str)
