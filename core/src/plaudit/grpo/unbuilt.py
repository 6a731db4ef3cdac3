"""Fields whose feature does not exist here yet. A feature that is built deletes its row.

The trainer refuses a configuration that sets one of them, so that no field is accepted and ignored.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from .checks import ConfigError

UNBUILT: dict[str, str] = {
}
"""Field name to what is missing and what to do."""


def refuse_unbuilt(config: Any) -> None:
    """Raise ConfigError if a field of `UNBUILT` is not at its default, naming each."""
    default = {field.name: field.default for field in fields(config)}
    asked = [name for name in UNBUILT if getattr(config, name) != default[name]]
    if asked:
        named = "\n".join(f"{name}={getattr(config, name)!r}: {UNBUILT[name]}." for name in asked)
        raise ConfigError(f"GRPOConfig asks for what does not exist yet:\n{named}")
