"""What a check of a run's health finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .history import History


@dataclass(frozen=True, slots=True)
class Finding:
    """`name`: of the check. `level`: "warning", or "note" for what is normal but looks odd."""

    name: str
    message: str
    advice: str
    step: int = 0
    level: str = "warning"

    def __str__(self) -> str:
        return f"{self.message} (step {self.step}). {self.advice}"


Check = Callable[[History], tuple[str, str] | None]
"""What is wrong and what to do, or None."""
