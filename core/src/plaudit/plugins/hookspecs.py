"""The hooks for behaviour that cuts across a run. A plugin implements those it wants in a module of group `plaudit`:

    from plaudit import hookimpl

    @hookimpl
    def on_log(step, metrics):
        return {"reward_percent": 100 * metrics["reward"]} if "reward" in metrics else None

An implementation takes any of the parameters below, by name. One that raises is reported once and not called again;
a PlauditError is meant for the user and ends the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pluggy

hookspec = pluggy.HookspecMarker("plaudit")
hookimpl = pluggy.HookimplMarker("plaudit")


@hookspec
def configure(settings: Mapping[str, Any]) -> None:
    """Before a run's model loads. `settings`: the run file as resolved. Raise UsageError to refuse the run."""


@hookspec
def on_scores(
    step: int, mode: str, rollouts: Sequence[Any], names: Sequence[str], scores: Sequence[Sequence[float | None]]
) -> None:
    """After a generation batch is scored.

    mode: "train" or "eval"; rollouts: this process's N `plaudit.Rollout`; names: K rewards; scores: N x K, None = no
    score.
    """


@hookspec
def on_step(step: int, epoch: float) -> None:
    """After each optimizer step."""


@hookspec
def on_log(step: int, mode: str, metrics: Mapping[str, float]) -> Mapping[str, float] | None:
    """Before metrics are logged, averaged over the logging interval. What is returned is logged beside them."""


@hookspec(firstresult=True)
def choose_sandbox(name: str, limits: Mapping[str, Any]) -> str | None:
    """The sandbox backend to use in place of `name` (as configured) for these limits; None = no opinion.

    Asked when a reward or an environment shares a sandbox of its process. limits: those of `plaudit_sandbox.Limits`.
    What is named instead has the options of `[sandbox]` if that names it too, and else none.
    """
