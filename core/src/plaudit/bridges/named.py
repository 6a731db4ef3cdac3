"""Functions of a bridge module by a reward's name: `pkg://plaudit.bridges.verl` with the name `math`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from plaudit.errors import PlauditError

from .standalone import StandaloneReward


def by_name(make: Callable[[str], Any], module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: what `make` makes of a reward's name, the same each time.

    A name that is no reward is an AttributeError that says why, as Python asks of a module.
    """

    @functools.cache
    def found(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        try:
            return make(name)
        except PlauditError as error:
            raise AttributeError(f"module {module!r} has no attribute {name!r}: {error}") from error

    return found


def standalone(reference: Any, options: Mapping[str, Any] | None = None, **more: Any) -> StandaloneReward:
    """The reward of a reference with options; the same one each time, so that its workers are kept."""
    if not (isinstance(reference, Hashable) and (isinstance(reference, str) or callable(reference))):
        return StandaloneReward(reference, options=options, **more)
    return _kept(reference, frozen(options or {}), frozen(more))


def reference_columns(reference: Any, row: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The columns of a row whose reference the other side hands over by itself; it wins over the row's own."""
    return {**(row or {}), "reference": reference}


@functools.lru_cache(maxsize=64)
def _kept(reference: Any, options: Any, more: Any) -> StandaloneReward:
    return StandaloneReward(reference, options=thawed(options), **thawed(more))


def frozen(value: Any) -> Any:
    """JSON-like data as something that can be hashed; `thawed` gives it back."""
    if isinstance(value, Mapping):
        return ("mapping", tuple((name, frozen(one)) for name, one in sorted(value.items())))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(frozen(one) for one in value))
    return ("value", type(value), value)  # 1 and true are equal, and not the same option


def thawed(kept: Any) -> Any:
    """What `frozen` was made from."""
    kind, value = kept[0], kept[-1]
    if kind == "mapping":
        return {name: thawed(one) for name, one in value}
    return [thawed(one) for one in value] if kind == "list" else value
