"""The subclass of TRL's trainer: what a run here asks of its trainer beside training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .trainer import Conversing, TRLRun


def trainer_class() -> type:
    """TRL's GRPOTrainer with `generate_completions`, `windows` and metrics.jsonl. Imports TRL."""
    from trl import GRPOTrainer

    from plaudit.grpo.reporting.hooking import StepHooks

    from .metrics_file import Metrics
    from .trainer import generate

    class Trainer(GRPOTrainer):
        """TRL's trainer of one run."""

        def __init__(self, run: TRLRun, conversing: Conversing | None, **more: Any) -> None:
            self._run, self._conversing = run, conversing
            super().__init__(**more)
            for callback in (StepHooks(), Metrics()):
                self.add_callback(callback)

        def train(self, *args: Any, **kwargs: Any) -> Any:
            """Train; environments are closed however it ends."""
            try:
                return super().train(*args, **kwargs)
            finally:
                if self._conversing is not None:
                    self._conversing.close()

        def generate_completions(
            self, rows: Sequence[Mapping[str, Any]], *, num_generations: int = 1, temperature: float | None = None
        ) -> list[dict[str, Any]]:
            """Generate with the policy as it is and score; nothing is updated."""
            return generate(self, self._run, rows, num_generations, temperature)

        @property
        def windows(self) -> dict[str, Window]:
            """Where a metric is put that the next log is to hold."""
            return {"train": Window(self._metrics["train"])}

    return Trainer


class Window:
    """The metrics that TRL holds until its next log."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def put(self, name: str, value: float) -> None:
        """Add a value, which the log takes the mean of."""
        self._held[name].append(value)
