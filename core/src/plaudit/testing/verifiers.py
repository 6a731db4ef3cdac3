"""`check_verifier`: whether a verifier judges its own examples, and keeps the contract of a reward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plaudit.audit.timed import judge_one
from plaudit.plugins.component import Reward
from plaudit.plugins.loading import load_reward
from plaudit.testing.conformance import Report, run_checks
from plaudit.testing.rewards import check_reward
from plaudit.types import Verdict

Example = tuple[Any, Any] | tuple[Any, Any, Mapping[str, Any]]
"""A completion, its reference, and perhaps more columns of its row."""


def check_verifier(
    verifier: str | Callable[..., Any] | Reward,
    *,
    right: Sequence[Example],
    wrong: Sequence[Example],
    abstains: Sequence[Example] = (),
    options: Mapping[str, Any] | None = None,
    full_marks: float = 1.0,
    time_budget_s: float = 10.0,
) -> Report:
    """Check a verifier on examples that it must pay in full, must not, and must abstain on.

    Checks, besides those of `check_reward`: every example, that a wrong or empty completion never gets full marks, and
    that what it says is a Verdict with a reason where it is not paid. Raises AssertionError listing what failed.
    """
    if not right or not wrong:
        raise AssertionError("give at least one right and one wrong example; a verifier is proved by both")
    loaded = verifier if isinstance(verifier, Reward) else load_reward(verifier, options=dict(options or {}))

    def judge(example: Example) -> Verdict:
        completion, reference, columns = (*example, {})[:3]
        return judge_one(loaded, completion, reference, columns)

    empty = [("", *example[1:]) for example in right]
    checks: dict[str, Callable[[], None]] = {
        "right examples": lambda: _all(right, judge, lambda v: v.score == full_marks, f"{full_marks:g}"),
        "wrong examples": lambda: _all(wrong, judge, lambda v: v.score not in (None, full_marks), "less"),
        "abstentions": lambda: _all(abstains, judge, lambda v: v.score is None, "no score"),
        "empty completions": lambda: _all(empty, judge, lambda v: v.score != full_marks, "less"),
        "reasons": lambda: _reasons([*wrong, *abstains], judge),
    }
    own = run_checks(checks, f"verifier '{loaded.__name__}'")
    contract = _contract(loaded, [*right, *wrong, *abstains], time_budget_s)
    return Report((*own.passed, *contract.passed), {}, {**own.skipped, **contract.skipped})


def _contract(loaded: Reward, examples: Sequence[Example], time_budget_s: float) -> Report:
    rows = [(*example, {})[:3] for example in examples]
    names = dict.fromkeys(name for _, _, columns in rows for name in columns)
    lists: dict[str, list[Any]] = {name: [columns.get(name) for _, _, columns in rows] for name in names}
    lists[loaded.reference_column or "reference"] = [reference for _, reference, _ in rows]
    return check_reward(
        loaded, completions=[completion for completion, _, _ in rows], columns=lists, time_budget_s=time_budget_s
    )


def _all(
    examples: Sequence[Example], judge: Callable[[Example], Verdict], holds: Callable[[Verdict], bool], wanted: str
) -> None:
    verdicts = [(example, judge(example)) for example in examples]
    bad = [
        f"{str(example[0])[:60]!r} against {str(example[1])[:60]!r} scored {verdict.score}, expected {wanted}"
        for example, verdict in verdicts
        if not holds(verdict)
    ]
    assert not bad, "; ".join(bad[:5])


def _reasons(examples: Sequence[Example], judge: Callable[[Example], Verdict]) -> None:
    silent = [str(example[0])[:60] for example in examples if not judge(example).reason]
    assert not silent, f"no reason is given for {silent[0]!r}; return a Verdict that says why"
