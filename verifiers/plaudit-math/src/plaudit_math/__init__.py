"""plaudit-math: does a completion answer a mathematical question? `verify` is the verifier `math`."""

from __future__ import annotations

from typing import Any

__all__ = ["verify"]


def __getattr__(name: str) -> Any:
    if name == "verify":
        from plaudit_math.verifier import verify

        return verify
    raise AttributeError(f"module 'plaudit_math' has no attribute {name!r}")
