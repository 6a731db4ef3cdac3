"""How long the trainer's parts take, for the trackers that draw it, under TRL's names."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

TRACKERS = ("wandb", "mlflow", "trackio")


def report_times(trainer: Any, *names: str) -> None:
    """Log `profiling/Time taken: GRPOTrainer.NAME`, in seconds, after each call of these methods of the trainer.

    They go straight to the trackers of report_to that have a run open, not into the metrics of the run. Without such a
    tracker, and on other ranks than the first, nothing is measured.
    """
    if trainer.accelerator.is_main_process and set(TRACKERS) & set(trainer.args.report_to):
        for name in names:
            setattr(trainer, name, _timed(trainer, name, getattr(trainer, name)))


def _timed(trainer: Any, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    title = f"profiling/Time taken: {type(trainer).__name__}.{name}"

    @functools.wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return method(*args, **options)
        finally:
            _log({title: time.perf_counter() - began}, trainer.args.report_to, trainer.state.global_step)

    return call


def _log(metrics: dict[str, float], trackers: list[str], step: int) -> None:
    # A tracker with an open run has been imported already.
    found = {name: sys.modules[name] for name in trackers if name in TRACKERS and name in sys.modules}
    if "wandb" in found and found["wandb"].run is not None:
        found["wandb"].log(metrics)
    if "mlflow" in found and found["mlflow"].active_run() is not None:
        found["mlflow"].log_metrics(metrics, step=step)
    if "trackio" in found:
        found["trackio"].log(metrics, step=step)
