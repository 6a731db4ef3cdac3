"""What a sweep file says."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from plaudit.errors import UsageError
from plaudit.run.parsing import build


@dataclass(frozen=True, slots=True)
class Parameter:
    """`[params."config.learning_rate"]`: `choices`, or numbers from `low` to `high`, whole ones if both are.

    `log`: evenly over orders of magnitude. `step`: only every so many.
    """

    choices: tuple[Any, ...] = ()
    low: float | int | None = None
    high: float | int | None = None
    log: bool = False
    step: float | int | None = None

    @property
    def whole(self) -> bool:
        """Whether it takes whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[Any, ...]:
        """Its choices, or both ends of its range."""
        return self.choices or (self.low, self.high)

    def check(self, where: str) -> None:
        """Raise UsageError on a parameter that has no values."""
        ranged = self.low is not None or self.high is not None
        if bool(self.choices) == ranged:
            raise UsageError(f"{where}: expected either choices = […], or low and high")
        if ranged and (self.low is None or self.high is None or self.low >= self.high):
            raise UsageError(f"{where}: low = {self.low}, high = {self.high}; expected low below high")
        if ranged and not (math.isfinite(self.low or 0) and math.isfinite(self.high or 0)):
            raise UsageError(f"{where}: low = {self.low}, high = {self.high}; expected finite numbers")
        if self.log and (self.low is None or self.low <= 0):
            raise UsageError(f"{where}: log needs low above 0; it is {self.low}")
        self._check_step(where, ranged=ranged)

    def _check_step(self, where: str, *, ranged: bool) -> None:
        if self.step is None:
            return
        if not ranged or self.log:
            raise UsageError(f"{where}: step goes with low and high, and not with log")
        if self.step <= 0 or (self.whole and not isinstance(self.step, int)):
            raise UsageError(f"{where}: step = {self.step}; expected a {'whole ' if self.whole else ''}number above 0")
        if self.step > (self.high or 0) - (self.low or 0):
            raise UsageError(f"{where}: step = {self.step} leads from low = {self.low} past high = {self.high} at once")


@dataclass(frozen=True, slots=True)
class StopRule:
    """`[stop]`: successive halving. A trial whose metric at `after`, `after * factor`, … steps is not among the best
    1 / `factor` of those that got there is stopped.
    """

    after: int = 10
    factor: int = 3


@dataclass(frozen=True, slots=True)
class SweepFile:
    """A sweep. `run`: the run file that all trials change. `parallel`: trials at one time on this machine.

    `metric`: a name in metrics.jsonl, averaged over the newest `window` lines that have it. `grid`: every combination
    of the choices, instead of a search. `clones`: how many more trials begin with the model of the best one and a
    parameter changed.
    """

    run: str
    output_dir: str
    params: Mapping[str, Parameter] = field(default_factory=dict)
    trials: int = 8
    parallel: int = 1
    metric: str = "reward"
    direction: Literal["maximize", "minimize"] = "maximize"
    window: int = 3
    grid: bool = False
    clones: int = 0
    seed: int = 0
    stop: StopRule | None = None

    @property
    def varied(self) -> list[str]:
        """The parameters that can differ between trials; all of them when none can."""
        return [name for name, one in self.params.items() if len(one.choices) != 1] or list(self.params)


def load_sweep_file(path: str) -> SweepFile:
    """The sweep of a TOML file; its run file is looked for beside it first. Raises UsageError."""
    source = Path(path)
    if not source.is_file():
        raise UsageError(f"no sweep file '{path}'; expected a TOML file")
    try:
        table = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}") from None
    params = table.pop("params", {})
    if not isinstance(params, dict) or not params:
        raise UsageError(f'{path} has no parameter; add [params."config.learning_rate"] with choices, or low and high')
    sweep = build(SweepFile, {**table, "params": {}})
    beside = source.parent / sweep.run
    found = {name: build(Parameter, value, f'params."{name}"') for name, value in _flat(params)}
    checked = replace(sweep, params=found, run=str(beside if beside.is_file() else sweep.run))
    _check(checked)
    return checked


def _flat(params: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """[params.config.learning_rate] and [params."config.learning_rate"] mean the same."""
    found = []
    for name, value in params.items():
        if not isinstance(value, Mapping):
            raise UsageError(f'params."{name}" is {value!r}; expected a table with choices, or low and high')
        if value and all(isinstance(one, Mapping) for one in value.values()):
            found += [(f"{name}.{inner}", table) for inner, table in _flat(value)]
        else:
            found.append((name, value))
    return found


def _check(sweep: SweepFile) -> None:
    for name, parameter in sweep.params.items():
        parameter.check(f'params."{name}"')
        if name == "output_dir":
            raise UsageError('params."output_dir": each trial has a folder of its own in the sweep\'s output_dir')
        if sweep.grid and not parameter.choices:
            raise UsageError(f'grid = true: params."{name}" needs choices')
    for key, low in (("trials", 1), ("parallel", 1), ("window", 1), ("clones", 0)):
        if getattr(sweep, key) < low:
            raise UsageError(f"{key} = {getattr(sweep, key)}: expected at least {low}")
    if sweep.stop is not None and (sweep.stop.after < 1 or sweep.stop.factor < 2):
        raise UsageError("[stop] needs after of at least 1 step and a factor of at least 2")
