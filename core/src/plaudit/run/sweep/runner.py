"""Runs the trials of a sweep side by side, stops bad ones early, and clones the best."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from plaudit.errors import PlauditError

from .halving import Rungs
from .schema import SweepFile
from .search import Search, combinations
from .trials import Trial, trial_folder

POLL_S = 0.5


@dataclass(slots=True)
class Sweep:
    """A sweep under way. `say`: told of each trial that begins or ends."""

    file: SweepFile
    search: Search
    say: Callable[[str], None]
    trials: list[Trial] = field(default_factory=list)
    _rungs: Rungs | None = None

    def __post_init__(self) -> None:
        """Set up early stopping."""
        if self.file.stop is not None:
            self._rungs = Rungs(self.file.stop, self.file.direction == "maximize")

    @property
    def count(self) -> int:
        """Trials, without clones."""
        return len(combinations(self.file)) if self.file.grid else self.file.trials

    def run(self) -> list[Trial]:
        """Run everything; trials in the order in which they began. Raises PlauditError when every trial failed."""
        try:
            self._fill(self.count, self._new)
            self._fill(self.count + self.file.clones, self._clone)
        finally:
            for trial in self.trials:
                trial.end()
            self.save()
        if all(trial.status == "failed" for trial in self.trials):
            raise PlauditError(f"every trial failed; the first: {self.trials[0].why()}")
        return self.trials

    def best(self) -> Trial | None:
        """The trial with the best metric of those that have a model."""
        scored = [
            (found[1], trial) for trial in self.trials if trial.status == "finished" and (found := self._score(trial))
        ]
        if not scored:
            return None
        pick = max if self.file.direction == "maximize" else min
        return pick(scored, key=lambda entry: entry[0])[1]

    def save(self) -> None:
        """Write what is known of all trials to sweep.json."""
        lines = []
        for trial in self.trials:
            found = self._score(trial)
            lines.append(
                {
                    "trial": trial.number,
                    "status": trial.status,
                    "parent": trial.parent,
                    "params": dict(trial.params),
                    "step": found[0] if found else None,
                    self.file.metric: found[1] if found else None,
                    "seconds": round(trial.seconds, 1),
                }
            )
        root = Path(self.file.output_dir)
        root.mkdir(parents=True, exist_ok=True)
        (root / "sweep.json").write_text(json.dumps(lines, indent=2) + "\n", encoding="utf-8")

    def _fill(self, count: int, make: Callable[[], Trial | None]) -> None:
        """Keep `parallel` trials running until there are `count`, and all have ended."""
        more = True
        while True:
            running = [trial for trial in self.trials if self._watch(trial)]
            while more and len(self.trials) < count and len(running) < self.file.parallel:
                made = make()
                more = made is not None
                if made is not None:
                    made.start(self.file.run)
                    self.trials.append(made)
                    running.append(made)
                    self.say(f"trial {made.number} begins: {describe(made)}")
            if not running:
                return
            time.sleep(POLL_S)

    def _new(self) -> Trial:
        number = len(self.trials)
        return Trial(number, self.search.propose(number), trial_folder(Path(self.file.output_dir), number))

    def _clone(self) -> Trial | None:
        """A trial from the best one's model, with a parameter changed; None when there is none yet."""
        best = self.best()
        if best is None:
            return None
        number = len(self.trials)
        own = {name: value for name, value in best.params.items() if name in self.file.params}
        params = {**self.search.changed(own), "model.path": str(best.folder.model)}
        return Trial(number, params, trial_folder(Path(self.file.output_dir), number), parent=best.number)

    def _watch(self, trial: Trial) -> bool:
        """Whether a trial still runs. Stops it if it is too bad, and tells the search when it has ended."""
        before = trial.process is not None
        running = trial.poll()
        if running and trial.status == "running" and self._rungs is not None:
            found = self._score(trial)
            if found is not None and self._rungs.stops(trial.number, *found):
                trial.interrupt()
        if before and not running:
            found = self._score(trial)
            self.search.tell(trial.number, found[1] if found and trial.status != "failed" else None)
            shown = f"{self.file.metric} {found[1]:.3f} at step {found[0]}" if found else trial.why()
            self.say(f"trial {trial.number} {trial.status}: {shown}")
            self.save()
        return running

    def _score(self, trial: Trial) -> tuple[int, float] | None:
        return trial.score(self.file.metric, self.file.window)


def describe(trial: Trial) -> str:
    """The parameters of a trial in one line, each by the last part of its name."""
    values = {name: value for name, value in trial.params.items() if trial.parent is None or name != "model.path"}
    shown = {name.rpartition(".")[2]: value for name, value in values.items()}
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in shown.items()
    )
