"""What a person sees while a run trains: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback

LINES = 20


class ProgressDisplay(TrainerCallback):
    """Shows the step, reward, each reward's mean and completion length, from what the trainer logs.

    `names`: the rewards. Without a terminal about 20 lines are printed over the run.
    """

    def __init__(self, names: Sequence[str], console: Console) -> None:
        self._names = names
        self._console = console
        self._bar: Progress | None = None
        self._task: Any = None
        self._text = ""
        self._next_line = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the bar at the step reached so far."""
        if not state.is_world_process_zero or not self._console.is_terminal:
            return
        self._bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self._console,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=state.max_steps, completed=state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        """Show the newest metrics."""
        if not state.is_world_process_zero or not logs:
            return
        evaluated = describe_metrics(logs, self._names, prefix="eval_")
        self._text = describe_metrics(logs, self._names) or self._text
        if self._bar is not None:
            self._bar.update(self._task, description=self._text)
            if evaluated:
                self._bar.console.print(f"step {state.global_step}, held out: {evaluated}", highlight=False)
        elif evaluated:
            self._console.print(f"step {state.global_step}/{state.max_steps}  held out: {evaluated}", highlight=False)
        elif self._text and "reward" in logs and state.global_step >= self._next_line:
            self._console.print(f"step {state.global_step}/{state.max_steps}  {self._text}", highlight=False)
            self._next_line = state.global_step + max(1, state.max_steps // LINES)

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(text, highlight=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Take the bar down."""
        self.close()

    def close(self) -> None:
        """Give the terminal back; also after an error."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def describe_metrics(logs: Mapping[str, Any], names: Sequence[str], *, prefix: str = "") -> str:
    """`reward 0.52, addition 0.50, length 31`, of the metrics that are there; "" when no reward is."""
    if logs.get(f"{prefix}reward") is None:
        return ""
    shown = {"reward": f"{prefix}reward"} | {
        name: f"{prefix}rewards/{name}/mean" for name in names[:3] if len(names) > 1
    }
    parts = [f"{label} {logs[key]:.3f}" for label, key in shown.items() if logs.get(key) is not None]
    length = logs.get(f"{prefix}completions/mean_length")
    return ", ".join([*parts, f"length {length:.0f}"] if length is not None else parts)
