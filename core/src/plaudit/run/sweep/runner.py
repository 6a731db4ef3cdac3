"""Runs the trials of a sweep side by side, stops bad ones early, and clones the best."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from plaudit.errors import PlauditError
from plaudit.run.curve import read_metrics
from plaudit.run.typecheck import closest

from .halving import Rungs
from .keeping import read_trials, write_trials
from .schema import SweepFile
from .search import Search, combinations
from .trials import UNFINISHED, Trial, trial_folder

POLL_S = 0.5
SHOW_S = 30.0


@dataclass(slots=True)
class Sweep:
    """A sweep under way. `say`: told of each trial that begins or ends.

    `show`: called now and then with the trials, which are saved then too.
    """

    file: SweepFile
    search: Search
    say: Callable[[str], None]
    show: Callable[[list[Trial]], None] = lambda trials: None
    trials: list[Trial] = field(default_factory=list)
    _rungs: Rungs | None = None
    _shown_at: float = 0.0

    def __post_init__(self) -> None:
        """Set up early stopping."""
        if self.file.stop is not None:
            self._rungs = Rungs(self.file.stop, self.file.direction == "maximize")

    @property
    def root(self) -> Path:
        """The sweep's folder."""
        return Path(self.file.output_dir)

    @property
    def count(self) -> int:
        """Trials, without clones."""
        return len(combinations(self.file)) if self.file.grid else self.file.trials

    def restore(self) -> None:
        """Take up what a sweep in this folder left: its trials, and processes of it that still run, which end."""
        self.trials, judged = read_trials(self.root)
        if self._rungs is not None:
            self._rungs.judged.update(judged)
        for trial in self.trials:
            trial.take_over()
            if trial.status not in UNFINISHED:
                self._tell(trial)
        done = sum(trial.status not in UNFINISHED for trial in self.trials)
        self.say(f"resumed: {done} of {len(self.trials)} trials have ended")
        self.save()

    def run(self) -> list[Trial]:
        """Run everything; trials in the order in which they began.

        Raises PlauditError when every trial failed, or none has the metric.
        """
        try:
            self._fill(self._new)
            self._fill(self._clone)
        finally:
            for trial in self.trials:
                trial.interrupt("interrupted")
            self.save()
            for trial in self.trials:
                trial.wait()
            self.save()
        if all(trial.status == "failed" for trial in self.trials):
            raise PlauditError(f"every trial failed; the first: {self.trials[0].why()}")
        return self.trials

    def best(self) -> Trial | None:
        """The trial with the best metric of those that have a model."""
        scored = [
            (found[1], trial)
            for trial in self.trials
            if trial.status == "finished" and (found := self.score(trial)) and math.isfinite(found[1])
        ]
        if not scored:
            return None
        pick = max if self.file.direction == "maximize" else min
        return pick(scored, key=lambda entry: entry[0])[1]

    def score(self, trial: Trial) -> tuple[int, float] | None:
        """The step that a trial is at and its metric."""
        return trial.score(self.file.metric, self.file.window)

    def save(self) -> None:
        """Write what is known of all trials to sweep.json."""
        lines = []
        for trial in self.trials:
            found = self.score(trial)
            lines.append(
                {
                    "trial": trial.number,
                    "status": trial.status,
                    "parent": trial.parent,
                    "params": dict(trial.params),
                    "step": found[0] if found else None,
                    self.file.metric: found[1] if found and math.isfinite(found[1]) else None,
                    "seconds": round(trial.ran_s(), 1),
                    "judged": self._rungs.judged.get(trial.number, []) if self._rungs else [],
                }
            )
        write_trials(self.root, lines)

    def _fill(self, make: Callable[[], Trial | None]) -> None:
        """Keep `parallel` trials running: first those that go on, then new ones while there are any."""
        while True:
            running = [trial for trial in self.trials if self._watch(trial)]
            while len(running) < self.file.parallel and (begun := self._next(make)) is not None:
                running.append(begun)
            if time.monotonic() - self._shown_at > SHOW_S:
                self._show()
            if not running:
                return
            time.sleep(POLL_S)

    def _next(self, make: Callable[[], Trial | None]) -> Trial | None:
        waiting = [trial for trial in self.trials if trial.status in UNFINISHED and trial.process is None]
        trial = waiting[0] if waiting else make()
        if trial is None:
            return None
        if not waiting:
            self.trials.append(trial)
            # Before its process begins, so that a kill between the two loses neither.
            self.save()
        trial.start(self.file.run)
        self.save()
        self.say(f"trial {trial.name()} {'goes on' if waiting else 'begins'}: {trial.describe(self.file.varied)}")
        return trial

    def _new(self) -> Trial | None:
        made = sum(trial.parent is None for trial in self.trials)
        return self._trial(self.search.propose(made)) if made < self.count else None

    def _clone(self) -> Trial | None:
        """A trial from the best one's model, with a parameter changed; None when there is none yet."""
        made = sum(trial.parent is not None for trial in self.trials)
        best = self.best() if made < self.file.clones else None
        if best is None:
            return None
        own = {name: value for name, value in best.params.items() if name in self.file.params}
        return self._trial({**self.search.changed(own, made), "model.path": str(best.folder.model)}, best.number)

    def _trial(self, params: dict[str, object], parent: int | None = None) -> Trial:
        number = len(self.trials)
        return Trial(number, params, trial_folder(self.root, number), parent=parent)

    def _watch(self, trial: Trial) -> bool:
        """Whether a trial still runs. Stops it if it is too bad, and tells the search when it has ended."""
        before = trial.process is not None
        running = trial.poll()
        if running and trial.status == "running" and self._rungs is not None:
            found = self.score(trial)
            if found is not None and self._rungs.stops(trial.number, *found):
                trial.interrupt("stopped")
                self.save()
        if before and not running:
            self._tell(trial)
            found = self.score(trial)
            shown = f"{self.file.metric} {found[1]:.3f} at step {found[0]}" if found else trial.why()
            self.say(f"trial {trial.name()} {trial.status}: {shown}")
            self._show()
            if trial.status == "finished" and found is None:
                self._require_metric(trial)
        return running

    def _tell(self, trial: Trial) -> None:
        """Let the search know what a trial of its own came to."""
        if trial.parent is not None:
            return
        found = self.score(trial) if trial.status != "failed" else None
        number = sum(one.parent is None for one in self.trials[: trial.number])
        self.search.tell(number, found[1] if found else None)

    def _require_metric(self, trial: Trial) -> None:
        """Raise PlauditError when nothing logs the metric: going on would find nothing out."""
        if any(self.score(one) for one in self.trials):
            return
        names = {name for line in read_metrics(trial.folder.metrics) for name in line} - {"step"}
        hint = closest(self.file.metric, names) or f"; it logs {', '.join(sorted(names)) or 'nothing'}"
        raise PlauditError(f'metric = "{self.file.metric}": trial {trial.number} logged none{hint}')

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        self.save()
        self.show(self.trials)
