"""The decorators with which an author declares more than a bare function can say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Kind = Literal["reward", "verifier", "environment"]
Granularity = Literal["batch", "group", "rollout"]
Executor = Literal["loop", "thread", "process", "ray"]
OnError = Literal["abstain", "zero", "drop_group", "raise"]

F = TypeVar("F", bound=Callable[..., Any])
ATTRIBUTE = "__plaudit__"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What an author declared of a component. None means "choose sensibly"; the run file overrides each field.

    `deterministic`: the same (row, completion, options) always scores the same, so equal work runs once and may be
    cached. `retry_on`: the exceptions that a retry can cure. `version`: part of the cache key and the lock.
    """

    kind: Kind
    granularity: Granularity | None = None
    executor: Executor | None = None
    timeout_s: float | None = None
    retries: int | None = None
    retry_on: tuple[type[BaseException], ...] = (ConnectionError, TimeoutError)
    on_error: OnError | None = None
    max_concurrency: int | None = None
    requests_per_s: float | None = None
    deterministic: bool = False
    version: str | None = None


def reward(function: F | None = None, **declared: Any) -> Any:
    """Declare a reward function (or class whose instances are one): `@reward(granularity="rollout", timeout_s=5)`.

    The function keeps TRL's contract and can be called as before. Keyword-only parameters with a default are its
    options. Fields: see `Declaration`. Raises TypeError on an unknown field.
    """
    return _declare("reward", function, declared)


def verifier(function: F | None = None, **declared: Any) -> Any:
    """Declare a verifier: `verify(completion, reference, column…, *, option=…) -> Verdict | float | bool | None`.

    On a class, its `__init__` parameters are the options and `verify` (or `__call__`) judges. A verifier is
    deterministic and has granularity rollout unless it says otherwise.
    """
    return _declare("verifier", function, declared)


def declare(kind: Kind, **declared: Any) -> Declaration:
    """A declaration with the defaults of its kind: a verifier is deterministic and judges one rollout at a time."""
    defaults = {"granularity": "rollout", "deterministic": True} if kind == "verifier" else {}
    return Declaration(kind=kind, **{**defaults, **declared})


def declaration_of(component: Any) -> Declaration | None:
    """The declaration on a component (or on the function inside a partial), or None for a plain function."""
    while isinstance(component, functools.partial):
        component = component.func
    found = getattr(component, ATTRIBUTE, None)
    return found if isinstance(found, Declaration) else None


def _declare(kind: Kind, function: F | None, declared: dict[str, Any]) -> Any:
    declaration = declare(kind, **declared)

    def mark(target: F) -> F:
        setattr(target, ATTRIBUTE, declaration)
        return target

    return mark if function is None else mark(function)
