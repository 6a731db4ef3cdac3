"""What watches a run while it trains: its health, canary rows, samples to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from plaudit.errors import PlauditError
from plaudit.run.folder import RunFolder
from plaudit.run.health import HealthMonitor, History
from plaudit.run.samples import plain_text

if TYPE_CHECKING:
    from plaudit.run.preflight import Prepared


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
        found.append(Watched(prepared.canary, names, run.canary.every, folder.root / "canary.jsonl", name="canary"))
    if run.samples is not None:
        rows = (prepared.heldout or prepared.train)[: run.samples.rows]
        found.append(Watched(rows, names, run.samples.every, folder.root / "samples.jsonl"))
    return found


def health_monitor(prepared: Prepared, say: Callable[[str], None]) -> HealthMonitor:
    """The monitor of a run."""
    weights = {spec.name: spec.weight for spec in prepared.rewards}
    history = History(
        rewards={name: float(weight) for name, weight in weights.items() if isinstance(weight, (int, float))},
        rollouts=prepared.sizes.prompts * prepared.sizes.generations,
        learning_rate=prepared.config.learning_rate,
        uses_vllm=prepared.config.use_vllm,
        canary_floor=prepared.run.canary.floor if prepared.run.canary is not None else 0.0,
    )
    return HealthMonitor(history, lambda text: say(f"health: {text}"))


@contextmanager
def memory_advice(config: Any) -> Iterator[None]:
    """An out-of-memory error as one that says what to lower."""
    import torch

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PlauditError(
            f"out of memory: {first}. Lower config.per_device_train_batch_size (now "
            f"{config.per_device_train_batch_size}) and raise gradient_accumulation_steps by as much, lower "
            f"max_completion_length (now {config.max_completion_length}), set gradient_checkpointing = true, or train "
            "a LoRA adapter ([model.peft])"
        ) from error
