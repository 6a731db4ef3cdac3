"""Which values trials get: Optuna proposes, from what the trials before came to, and keeps its study in a file."""

from __future__ import annotations

import itertools
import json
import math
import random
import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from plaudit.errors import UsageError

from .schema import Parameter, SweepFile

JOURNAL = "study.journal"
STUDY = "sweep"
SCALARS = (bool, int, float, str)


class Search:
    """Proposes parameters and is told results. Needs optuna; raises UsageError without it.

    The study lies in `study.journal` of the sweep's folder. What is proposed follows from the seed, the proposal's
    number and the results told so far, so that a resumed sweep goes on as it would have.
    """

    def __init__(self, sweep: SweepFile) -> None:
        try:
            import optuna
        except ImportError as error:
            raise UsageError(f"a sweep needs optuna: pip install 'plaudit[sweep]' ({error})") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sweep = sweep

    @cached_property
    def _study(self) -> Any:
        from optuna import create_study
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

        journal = Path(self._sweep.output_dir) / JOURNAL
        journal.parent.mkdir(parents=True, exist_ok=True)
        _drop_torn_line(journal)
        # Whoever held Optuna's own lock was killed: the folder is this process's alone.
        journal.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
        backend = JournalFileBackend(str(journal), lock_obj=JournalFileOpenLock(str(journal)))
        return create_study(
            storage=JournalStorage(backend), study_name=STUDY, direction=self._sweep.direction, load_if_exists=True
        )

    def propose(self, number: int) -> dict[str, Any]:
        """The parameters of a new trial that is not a clone; `number` counts these from 0. Of a grid, the combination
        of that number. A number that was proposed before gets the same again.
        """
        if self._sweep.grid:
            return combinations(self._sweep)[number]
        from optuna.samplers import TPESampler
        from optuna.trial import Trial

        startup = max(4, self._sweep.trials // 3)
        self._study.sampler = TPESampler(seed=_seed(self._sweep, number), n_startup_trials=startup)
        if number >= len(self._study.get_trials(deepcopy=False)):
            self._study.ask()
        # By its id, as one that was killed while it proposed has some of its values already.
        trial = Trial(self._study, self._study.get_trials(deepcopy=False)[number]._trial_id)
        return {name: _suggested(trial, name, one) for name, one in self._sweep.params.items()}

    def tell(self, number: int, score: float | None) -> None:
        """What a proposal came to; None, or what is no number = it failed. Only the first time counts."""
        from optuna.trial import TrialState

        if self._sweep.grid:
            return
        failed = score is None or not math.isfinite(score)
        state = TrialState.FAIL if failed else TrialState.COMPLETE
        self._study.tell(number, None if failed else score, state=state, skip_if_finished=True)

    def changed(self, params: Mapping[str, Any], number: int) -> dict[str, Any]:
        """The parameters of clone `number`: one of them changed, a number by half or half as much again, within its
        range.
        """
        draw = random.Random(_seed(self._sweep, number, "clone"))
        movable = [name for name in sorted(params) if len(self._sweep.params[name].choices) != 1]
        if not movable:
            return dict(params)
        name = draw.choice(movable)
        return {**params, name: _neighbour(self._sweep.params[name], params[name], draw)}


def combinations(sweep: SweepFile) -> list[dict[str, Any]]:
    """Every combination of the choices of a grid."""
    values = itertools.product(*(one.choices for one in sweep.params.values()))
    return [dict(zip(sweep.params, chosen, strict=True)) for chosen in values]


def _suggested(trial: Any, name: str, parameter: Parameter) -> Any:
    """The value of one parameter: drawn the first time, the same from then on."""
    if parameter.choices:
        labels = _labels(parameter)
        return parameter.choices[labels.index(trial.suggest_categorical(name, labels))]
    suggest = trial.suggest_int if parameter.whole else trial.suggest_float
    step = parameter.step if parameter.step is not None else 1 if parameter.whole else None
    with warnings.catch_warnings():
        # A range that is no multiple of its step ends at its last step.
        warnings.filterwarnings("ignore", message=".*not divisible by `step`")
        return suggest(name, parameter.low, parameter.high, log=parameter.log, step=step)


def _labels(parameter: Parameter) -> list[Any]:
    """The choices as Optuna can keep them: lists and tables as JSON."""
    plain = all(isinstance(one, SCALARS) for one in parameter.choices)
    return list(parameter.choices) if plain else [json.dumps(one) for one in parameter.choices]


def _neighbour(parameter: Parameter, value: Any, draw: random.Random) -> Any:
    if parameter.choices:
        others = [one for one in parameter.choices if one != value]
        return draw.choice(others) if others else value
    assert parameter.low is not None
    assert parameter.high is not None
    moved = value * draw.choice((0.5, 1.5))
    if parameter.step is not None:
        moved = parameter.low + parameter.step * max(0, round((moved - parameter.low) / parameter.step))
        while moved > parameter.high:
            moved -= parameter.step
    moved = min(max(moved, parameter.low), parameter.high)
    return round(moved) if parameter.whole else moved


def _seed(sweep: SweepFile, number: int, what: str = "proposal") -> int:
    return random.Random(f"{sweep.seed} {what} {number}").getrandbits(32)


def _drop_torn_line(journal: Path) -> None:
    """Cut off a last line that a killed process left unfinished; Optuna could not read past it."""
    if not journal.exists():
        return
    content = journal.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with journal.open("r+b") as file:
            file.truncate(whole)
