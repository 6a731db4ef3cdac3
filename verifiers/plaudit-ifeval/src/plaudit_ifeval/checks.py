"""What a check is: a function of the text and its keyword arguments, filed under an instruction id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Check = Callable[..., bool]
CHECKS: dict[str, Check] = {}
C = TypeVar("C", bound=Check)


class CannotJudge(ValueError):
    """An argument of the instruction is missing or makes no sense, so neither yes nor no would be true."""


def check(instruction_id: str) -> Callable[[C], C]:
    """File a function under an instruction id."""

    def file(function: C) -> C:
        CHECKS[instruction_id] = function
        return function

    return file


def compare(count: int, relation: str, wanted: Any) -> bool:
    """Whether `count` stands in `relation` to `wanted`. Raises CannotJudge on an unknown relation or no number."""
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        raise CannotJudge(f"expected a number, got {wanted!r}")
    relations = {
        "at least": count >= wanted,
        "less than": count < wanted,
        "at most": count <= wanted,
        "more than": count > wanted,
        "exactly": count == wanted,
    }
    if relation not in relations:
        raise CannotJudge(f"relation must be one of {', '.join(relations)}; got {relation!r}")
    return relations[relation]
