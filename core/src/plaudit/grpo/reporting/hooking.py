"""Where the hooks of installed plugins look into a training run. They observe; `on_log` may add metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback

from ...plugins.hooks import installed_hooks
from ..collected import Collected
from ..writing import Mode


def announce_scores(collected: Collected, mode: Mode, step: int) -> None:
    """Hook `on_scores`, with this rank's rollouts and scores."""
    installed_hooks().call(
        "on_scores",
        step=step,
        mode=mode,
        rollouts=collected.rollouts,
        names=collected.names,
        scores=collected.reports[collected.rank].table.scores,
    )


def metrics_of_hooks(logs: Mapping[str, Any], mode: Mode, step: int) -> dict[str, float]:
    """Hook `on_log`: what the plugins add to these logs."""
    added: dict[str, float] = {}
    for found in installed_hooks().call("on_log", check=_problem, step=step, mode=mode, metrics=dict(logs)):
        added |= found
    return added


class StepHooks(TrainerCallback):
    """Hook `on_step`, after each optimizer step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Called by the Trainer."""
        installed_hooks().call("on_step", step=state.global_step, epoch=state.epoch)


def _problem(found: Any) -> str | None:
    if isinstance(found, Mapping) and all(isinstance(value, (int, float)) for value in found.values()):
        return None
    return f"it returned {found!r:.80}; expected a mapping of names to numbers"
