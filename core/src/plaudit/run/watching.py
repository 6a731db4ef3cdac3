"""What watches a run while it trains: its health, canary rows, samples to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from plaudit.run.curve import read_metrics
from plaudit.run.folder import RunFolder
from plaudit.run.health import HealthMonitor, History
from plaudit.run.samples import plain_text
from plaudit.scoring.gates import matches
from plaudit.scoring.schedules import as_schedule

if TYPE_CHECKING:
    from plaudit.run.preflight import Prepared

BEST_ROWS = 512


class Watched(TrainerCallback):
    """Generates for some rows every `every` optimizer steps and adds a line a completion to a file.

    `name`: under which metrics the mean rewards are logged, None = under none. `names`: the rewards. Call `attach`
    with the trainer before training. Training is the same with and without it.
    """

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        names: Sequence[str],
        every: int,
        file: Path,
        *,
        name: str | None = None,
    ) -> None:
        self._rows, self._names, self._every, self._file, self._name = list(rows), list(names), every, file, name
        self._trainer: Any = None

    def attach(self, trainer: Any) -> None:
        """The trainer that generates."""
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Drop what an earlier run wrote, or this one after the checkpoint from which it goes on."""
        if not state.is_world_process_zero or not self._file.exists():
            return
        kept = [line for line in read_metrics(self._file) if line["step"] <= state.global_step]
        self._file.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept), encoding="utf-8")

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Called by the Trainer after each optimizer step."""
        if state.global_step % self._every:
            return
        records = self._trainer.generate_completions(self._rows)
        if state.is_world_process_zero:
            self._write(records, state.global_step)
        if self._name is not None:
            self._log({f"{self._name}/{name}": value for name, value in means(records, self._names).items()})

    def _write(self, records: Sequence[Mapping[str, Any]], step: int) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            for record in records:
                line = {
                    "step": step,
                    "prompt": plain_text(record["prompt"]),
                    "completion": plain_text(record["completion"]),
                    **{name: record[name] for name in (*self._names, "reward")},
                }
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _log(self, metrics: Mapping[str, float]) -> None:
        """With the next log line where the trainer has a window, else at once."""
        windows = getattr(self._trainer, "windows", None)
        if windows is None:
            self._trainer.log(dict(metrics))
            return
        for name, value in metrics.items():
            windows["train"].put(name, value)


def means(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, float]:
    """`reward` and each reward's `{name}/mean` over the records that have them."""
    found = {}
    for name, key in (("reward", "reward"), *((name, f"{name}/mean") for name in names)):
        values = [record[name] for record in records if record[name] is not None]
        if values:
            found[key] = sum(values) / len(values)
    return found


def watchers(prepared: Prepared, folder: RunFolder) -> list[Watched]:
    """What `[canary]` and `[samples]` ask for."""
    run, names = prepared.run, [spec.name for spec in prepared.rewards]
    found = []
    if run.canary is not None:
        found.append(Watched(prepared.canary, names, run.canary.every, folder.canary, name="canary"))
    if run.samples is not None:
        rows = (prepared.heldout or prepared.train)[: run.samples.rows]
        found.append(Watched(rows, names, run.samples.every, folder.samples))
    return found


def health_monitor(
    prepared: Prepared, say: Callable[[str], None], logged: Iterable[Mapping[str, Any]] = ()
) -> HealthMonitor:
    """The monitor of a run. `logged`: what it logged before, when it goes on from a checkpoint."""
    import torch

    history = History(
        rewards={spec.name: spec.weight for spec in prepared.rewards},
        rollouts=prepared.sizes.prompts * prepared.sizes.generations,
        learning_rate=prepared.config.learning_rate,
        uses_vllm=prepared.config.use_vllm,
        has_gpu=torch.cuda.is_available() and not prepared.config.use_cpu,
        canary_floor=prepared.run.canary.floor if prepared.run.canary is not None else 0.0,
        best=_best_reward(prepared),
        heldout_rows=len(prepared.heldout),
    )
    monitor = HealthMonitor(history, lambda text: say(f"health: {text}"))
    monitor.replay(logged)
    return monitor


def _best_reward(prepared: Prepared) -> float:
    """What a perfect rollout is paid at the start: the weights above 0 of the rewards that judge a row, on average."""
    weights = {spec.name: max(as_schedule(spec.weight)(0), 0.0) for spec in prepared.rewards}
    paid = [
        sum(weights[spec.name] for spec in prepared.rewards if matches(spec.when, row))
        for row in prepared.train[:BEST_ROWS]
    ]
    return fmean(paid)
