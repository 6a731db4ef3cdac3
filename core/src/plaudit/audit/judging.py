"""Running cases through a verifier in killable processes, and saying of each whether the verdict was right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from plaudit.audit.timed import SECONDS, Timed
from plaudit.corpora import Case
from plaudit.errors import UsageError
from plaudit.types import Rollout, Row

if TYPE_CHECKING:
    from plaudit.scoring.table import ScoreTable

Finding = Literal["right", "false_positive", "false_negative", "abstained_wrongly", "crashed", "timed_out"]
KIND_NAMES = {"mcq": "choice"}
"""Case kinds whose verifier goes by another name."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one case: the score that was given, how it compares, the reason, and the seconds it took."""

    case: Case
    score: float | list[float] | None
    finding: Finding
    reason: str
    seconds: float | None


def verifier_name(kind: str) -> str:
    """The name of the verifier that judges cases of this kind."""
    return KIND_NAMES.get(kind, kind)


def expected_score(case: Case) -> float | list[float] | None:
    """The score a case wants: `expected` as a bool, a number, None, or `{"score": …}` around one."""
    expected = case.get("expected")
    score = expected.get("score") if isinstance(expected, Mapping) else expected
    if isinstance(score, list):
        return [float(one) for one in score]
    if score is None or isinstance(score, bool | int | float):
        return None if score is None else float(score)
    raise UsageError(f"case {case.get('id')!r}: expected {score!r} is neither a bool, a number nor null")


def judge_cases(
    cases: Sequence[Case], reference: str, options: Mapping[str, Any], *, timeout_s: float, processes: int | None = None
) -> list[Judgement]:
    """Judge every case with the verifier that `reference` names, in processes that are stopped after `timeout_s`."""
    from plaudit.plugins.loading import load_reward
    from plaudit.scoring.scorer import Scorer
    from plaudit.scoring.spec import RewardSpec

    load_reward(reference, options=dict(options))
    if not cases:
        return []
    timed = f"{Timed.__module__}:{Timed.__qualname__}"
    wrapped = load_reward(timed, options={"reference_text": reference, "options": dict(options)})
    spec = RewardSpec(
        wrapped, "audit", reference_column="reference", executor="process", timeout_s=timeout_s, retries=0,
        breaker_failures=len(cases) + 1, deterministic=False,
    )  # fmt: skip
    rollouts = [_rollout(index, case) for index, case in enumerate(cases)]
    with (
        Scorer([spec], max_unscored_share=None, processes=processes) as scorer,
        scorer.open([rollout.row for rollout in rollouts], num_generations=1, mode="eval") as session,
    ):
        for rollout in rollouts:
            session.submit(rollout)
        table = session.result()
    return _judgements(cases, table)


def _judgements(cases: Sequence[Case], table: ScoreTable) -> list[Judgement]:
    failures = {index: failure for failure in table.failures for index in failure.rollouts}
    cells = {name: table.columns.get(f"audit/{name}", (None,) * len(cases)) for name in (SECONDS, "reason", "scores")}
    judgements = []
    for index, case in enumerate(cases):
        failure = failures.get(index)
        listed = cells["scores"][index] if isinstance(expected_score(case), list) else None
        score = table.scores[index][0] if listed is None else list(listed)
        reason = failure.message if failure else cells["reason"][index] or ""
        finding = _finding(case, score, failure.kind if failure else None)
        judgements.append(Judgement(case, score, finding, reason, cells[SECONDS][index]))
    return judgements


def _rollout(index: int, case: Case) -> Rollout:
    columns = {"reference": case["reference"] if case.get("reference") is not None else case.get("gold")}
    columns |= {name: case[name] for name in ("choices", "tools", "kwargs") if name in case}
    return Rollout(index, Row(case.get("prompt") or "", columns), case["completion"])


def _finding(case: Case, score: float | list[float] | None, failure: str | None) -> Finding:
    """An abstention or an exception is right where the case wants no score; a timeout never is."""
    expected = expected_score(case)
    if failure is not None and failure in ("timeout", "killed", "memory"):
        return "timed_out"
    if failure is not None:
        return "right" if expected is None else "crashed"
    if expected is None or score is None:
        if expected is score:
            return "right"
        return "abstained_wrongly" if score is None else ("false_positive" if _paid(score) else "false_negative")
    if _close(score, expected):
        return "right"
    return "false_positive" if _total(score) > _total(expected) else "false_negative"


def _paid(score: float | list[float]) -> bool:
    return _total(score) > 0


def _total(score: float | list[float]) -> float:
    return sum(score) if isinstance(score, list) else score


def _close(score: float | list[float], expected: float | list[float]) -> bool:
    if isinstance(score, list) or isinstance(expected, list):
        both = isinstance(score, list) and isinstance(expected, list) and len(score) == len(expected)
        return both and all(map(_close, score, expected))  # type: ignore[arg-type]
    return math.isclose(score, expected, rel_tol=1e-6, abs_tol=1e-6)
