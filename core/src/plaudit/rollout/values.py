"""What a sampling option may be: the checks that its fields and `generation_kwargs` share. No torch here."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

from ..errors import UsageError

SEEDS = range(-(2**63), 2**64)  # what torch's generators take


def is_whole(value: Any, *, least: int = 0) -> bool:
    """Whether it is an integer, at least so large; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def is_number(value: Any) -> bool:
    """Whether it is a finite number; True and False are not."""
    return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)


def is_share(value: Any, *, above: bool = False) -> bool:
    """Whether it is a number between 0 and 1; `above`: 0 itself is not."""
    return is_number(value) and (0 < value <= 1 if above else 0 <= value <= 1)


def are_token_ids(value: Any) -> bool:
    """Whether it is a tuple of token ids."""
    return isinstance(value, tuple) and all(map(is_whole, value))


def are_texts(value: Any) -> bool:
    """Whether it is a tuple of strings, none of them empty."""
    return isinstance(value, tuple) and all(isinstance(text, str) and text for text in value)


def refuse(found: Mapping[str, tuple[Any, bool, str]], *, what: str) -> None:
    """Raise UsageError for the first that does not hold. `found`: name -> value, whether it holds, what it must be."""
    for name, (value, holds, wanted) in found.items():
        if not holds:
            raise UsageError(f"{what} {name} is {value!r}; it must be {wanted}")
