"""What rewards return, brought to one form: a list of floats, None, Verdicts and breaches of contract."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from plaudit.errors import ContractError
from plaudit.plugins.contract import as_score
from plaudit.scoring.errors import LengthError
from plaudit.types import Verdict


@dataclasses.dataclass(frozen=True, slots=True)
class Breach:
    """One returned value that breaks the contract: infinity, or no score at all. It goes through `on_error`."""

    kind: str
    message: str


Value = float | None | Verdict | Breach


def normalised(returned: Any, count: int, name: str) -> list[Value]:
    """The values of `count` rollouts. NaN abstains; infinity and what is no score are Breaches in their place.

    A value may be a float, bool, None, numpy or torch scalar, Verdict, or a mapping with `score` (or `reward`) whose
    other entries become metrics (numbers) or columns, or with a `failure` (kind, message) instead.
    Raises LengthError on what is no list of `count` values.
    """
    values = returned if type(returned) is list else _as_list(returned, count, name)
    if len(values) != count:
        raise LengthError(
            f"reward '{name}' returned {len(values)} scores for {count} completions; it must return one each"
        )
    return [value if type(value) is float and math.isfinite(value) else _value(value, name) for value in values]


def _as_list(returned: Any, count: int, name: str) -> list[Any]:
    if hasattr(returned, "tolist"):
        returned = returned.tolist()
    if isinstance(returned, (str, bytes, Mapping)) or not isinstance(returned, Iterable):
        raise LengthError(
            f"reward '{name}' returned {_shown(returned)}; expected a list of {count} floats or None, one a completion"
        )
    return list(returned)


def score_of(value: Value) -> float | None:
    """The score in a normalised value."""
    if isinstance(value, Verdict):
        return value.score
    return None if isinstance(value, Breach) else value


def _value(value: Any, name: str) -> Value:
    if value is None:
        return None
    if type(value) is Verdict and type(value.score) is float and math.isfinite(value.score):
        return value
    try:
        if isinstance(value, Mapping):
            value = _from_mapping(value, name)
            if isinstance(value, Breach):
                return value
        score = as_score(value.score if isinstance(value, Verdict) else value, name)
    except ContractError as error:
        return Breach("contract", str(error))
    if score is not None and math.isinf(score):
        return Breach("infinite", f"reward '{name}' returned {score}; a score must be finite (None abstains)")
    return dataclasses.replace(value, score=score) if isinstance(value, Verdict) else score


def _from_mapping(value: Mapping[str, Any], name: str) -> Verdict | Breach:
    failure = value.get("failure")
    if isinstance(failure, Mapping):
        return Breach(str(failure.get("kind")), str(failure.get("message")))
    key = "score" if "score" in value else "reward"
    if key not in value:
        raise ContractError(f"reward '{name}' returned a mapping without 'score': {sorted(map(str, value))}")
    rest = {str(k): v for k, v in value.items() if k not in (key, "reason", "extracted")}
    metrics = {k: float(v) for k, v in rest.items() if isinstance(v, (int, float))}
    extracted = value.get("extracted")
    return Verdict(
        value[key],
        reason=str(value.get("reason") or ""),
        extracted=None if extracted is None else str(extracted),
        metrics=metrics,
        columns={k: v for k, v in rest.items() if k not in metrics},
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
