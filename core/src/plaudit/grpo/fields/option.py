"""How a configuration field is written down."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def option(default: Any, help: str) -> Any:
    """A field with its default and the help that `--help` and the documentation show."""
    return field(default=default, metadata={"help": help})
