"""Which back end a sandbox has that names none, and who may put another in its place."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import entry_points
from typing import Any

from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.limits import Limits

CHOOSERS = "plaudit.sandbox_choosers"
"""Entry-point group of functions `(name, limits) -> name | None`, asked for every sandbox that a process shares."""
VARIABLE = "PLAUDIT_SANDBOX"
"""Holds the default as JSON: worker processes inherit it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A back end by name, with its options."""

    backend: str = "local"
    options: Mapping[str, Any] = field(default_factory=dict)


def default_sandbox() -> Choice:
    """The back end of those that name none: local, unless `sandbox_default` says otherwise. Raises SandboxError."""
    text = os.environ.get(VARIABLE)
    if not text:
        return Choice()
    try:
        return Choice(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise SandboxError(f'{VARIABLE}={text!r}: expected JSON like {{"backend": "docker"}} ({error})') from None


@contextmanager
def sandbox_default(choice: Choice | None) -> Iterator[None]:
    """Make this the default, of processes that are started meanwhile too. None changes nothing."""
    before = os.environ.get(VARIABLE)
    if choice is not None:
        os.environ[VARIABLE] = json.dumps(asdict(choice))
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def choose(backend: str | None, options: Mapping[str, Any], limits: Limits) -> Choice:
    """The back end to open where this one was asked for, None = the default.

    Options that are given beside no name go before the default's. Where a chooser puts another back end in place of the
    one asked for, that has the default's options if it is the default, and none otherwise.
    """
    default = default_sandbox()
    asked = Choice(backend, options) if backend else Choice(default.backend, {**default.options, **options})
    for chooser in _choosers():
        name = chooser(asked.backend, asdict(limits))
        if name is not None and name != asked.backend:
            return Choice(name, default.options if name == default.backend else {})
    return asked


@functools.cache
def _choosers() -> tuple[Callable[[str, Mapping[str, Any]], str | None], ...]:
    return tuple(point.load() for point in entry_points(group=CHOOSERS))
