"""What can be known of a sweep's trials before the first one begins."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from plaudit.errors import UsageError
from plaudit.run.schema import RunFile

from .schema import SweepFile
from .toml_values import toml_text

TRIED = 32
"""Combinations of the other parameters with which a value is tried before it is refused."""


def check_run_file(sweep: SweepFile) -> None:
    """Raise UsageError unless the run file takes every choice, or both ends of a range, with some of the others, and
    one whole combination passes the preflight.
    """
    from plaudit.run.preflight import prepare_run
    from plaudit.run.runfile import load_run_file

    if load_run_file(sweep.run).stages:
        raise UsageError(f"{sweep.run} has [[stage]]; sweep the run of one stage")
    runs = [_taking(sweep, name, value) for name, parameter in sweep.params.items() for value in parameter.ends]
    prepare_run(runs[0])


def _taking(sweep: SweepFile, name: str, value: Any) -> RunFile:
    """The run file with a parameter at this value, and the others where they go with it."""
    from plaudit.run.configuring import make_config

    others = {other: parameter.ends for other, parameter in sweep.params.items() if other != name}
    refused: UsageError | None = None
    for chosen in itertools.islice(itertools.product(*others.values()), TRIED):
        try:
            run = _run_file(sweep, {name: value, **dict(zip(others, chosen, strict=True))})
            make_config(run)
        except UsageError as error:
            refused = refused or error
        else:
            return run
    raise UsageError(f'params."{name}" = {value!r}: {refused}')


def _run_file(sweep: SweepFile, params: Mapping[str, Any]) -> RunFile:
    from plaudit.run.runfile import load_run_file

    return load_run_file(sweep.run, [f"{name}={toml_text(value)}" for name, value in params.items()])
