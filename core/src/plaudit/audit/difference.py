"""What changes when one verifier takes another's place: flipped verdicts, and advantages of another sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Scores = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Over n rows in groups of G: `flipped` rows whose score differs, `signs` advantages whose sign does.

    `abstentions`: rows that one of the two scores and the other does not.
    """

    n: int
    flipped: tuple[int, ...]
    signs: tuple[int, ...]
    abstentions: tuple[int, ...]


def difference(left: Scores, right: Scores, num_generations: int, *, tolerance: float = 1e-6) -> Difference:
    """Compare two columns of scores row by row; every `num_generations` rows are a group."""
    rows = range(len(left))
    flipped = tuple(i for i in rows if _differs(left[i], right[i], tolerance))
    left_signs, right_signs = (advantage_signs(scores, num_generations, tolerance) for scores in (left, right))
    return Difference(
        n=len(left),
        flipped=flipped,
        signs=tuple(i for i in rows if left_signs[i] != right_signs[i]),
        abstentions=tuple(i for i in rows if (left[i] is None) != (right[i] is None)),
    )


def advantage_signs(scores: Scores, num_generations: int, tolerance: float = 1e-6) -> list[int]:
    """The sign of each row's score less its group's mean; 0 for a row without a score. Scaling keeps signs."""
    signs = []
    for start in range(0, len(scores), num_generations):
        group = scores[start : start + num_generations]
        known = [score for score in group if score is not None]
        mean = sum(known) / len(known) if known else 0.0
        signs += [0 if score is None else _sign(score - mean, tolerance) for score in group]
    return signs


def _sign(value: float, tolerance: float) -> int:
    return 0 if abs(value) <= tolerance else (1 if value > 0 else -1)


def _differs(left: float | None, right: float | None, tolerance: float) -> bool:
    if left is None or right is None:
        return left is not right
    return abs(left - right) > tolerance
