"""metrics.jsonl of a run that TRL trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from plaudit.grpo.reporting.hooking import metrics_of_hooks
from plaudit.grpo.reporting.run_log import RunLog


class Metrics(TrainerCallback):
    """Writes a line a log, with what the hooks of plugins add to it."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After a resume, drop the lines that are written again."""
        if state.global_step:
            self._file(args, state).rewind(state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Called by the Trainer with the metrics."""
        if logs is None:
            return
        mode = "eval" if any(name.startswith("eval_") for name in logs) else "train"
        logs.update(metrics_of_hooks(logs, mode, state.global_step))  # type: ignore[arg-type]
        self._file(args, state).flush(logs, mode, state.global_step)  # type: ignore[arg-type]

    @staticmethod
    def _file(args: Any, state: Any) -> RunLog:
        return RunLog(Path(args.output_dir) / "metrics.jsonl", None, main=state.is_world_process_zero)
