"""Which values trials get: Optuna proposes, from what the trials before came to."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

from plaudit.errors import UsageError

from .schema import Parameter, SweepFile


class Search:
    """Proposes parameters and is told results. Needs optuna; raises UsageError without it."""

    def __init__(self, sweep: SweepFile) -> None:
        try:
            import optuna
        except ImportError as error:
            raise UsageError(f"a sweep needs optuna: pip install 'plaudit[sweep]' ({error})") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._sweep = sweep
        self._distributions = {name: _distribution(one) for name, one in sweep.params.items()}
        self._asked: dict[int, Any] = {}
        self._random = random.Random(sweep.seed)
        sampler = optuna.samplers.TPESampler(seed=sweep.seed, n_startup_trials=max(4, sweep.trials // 3))
        self._study = optuna.create_study(direction=sweep.direction, sampler=sampler)

    def propose(self, trial: int) -> dict[str, Any]:
        """The parameters of a new trial; of a grid, the combination of that number."""
        if self._sweep.grid:
            return combinations(self._sweep)[trial]
        self._asked[trial] = self._study.ask(self._distributions)
        return dict(self._asked[trial].params)

    def tell(self, trial: int, score: float | None) -> None:
        """What a trial came to; None = it failed."""
        from optuna.trial import TrialState

        asked = self._asked.pop(trial, None)
        if asked is None:
            return
        if score is None:
            self._study.tell(asked, state=TrialState.FAIL)
        else:
            self._study.tell(asked, score)

    def changed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a clone: one of them changed, a number by half or half as much again, within its range."""
        movable = [name for name in sorted(params) if len(self._sweep.params[name].choices) != 1]
        if not movable:
            return dict(params)
        name = self._random.choice(movable)
        return {**params, name: _neighbour(self._sweep.params[name], params[name], self._random)}


def combinations(sweep: SweepFile) -> list[dict[str, Any]]:
    """Every combination of the choices of a grid."""
    values = itertools.product(*(one.choices for one in sweep.params.values()))
    return [dict(zip(sweep.params, chosen, strict=True)) for chosen in values]


def _distribution(parameter: Parameter) -> Any:
    from optuna import distributions

    if parameter.choices:
        return distributions.CategoricalDistribution(parameter.choices)
    kind: Any = distributions.IntDistribution if parameter.whole else distributions.FloatDistribution
    step = parameter.step if parameter.step is not None else 1 if parameter.whole else None
    return kind(parameter.low, parameter.high, log=parameter.log, step=step)


def _neighbour(parameter: Parameter, value: Any, draw: random.Random) -> Any:
    if parameter.choices:
        others = [one for one in parameter.choices if one != value]
        return draw.choice(others) if others else value
    assert parameter.low is not None
    assert parameter.high is not None
    moved = min(max(value * draw.choice((0.5, 1.5)), parameter.low), parameter.high)
    return round(moved) if parameter.whole else moved
