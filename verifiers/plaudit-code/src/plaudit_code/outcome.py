"""What one test came to, and what all of them come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plaudit import Verdict

Credit = Literal["all", "fraction"]


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """`passed` None: the test can say nothing. `kind` of a failure: wrong, timeout, memory, compile, error, …"""

    passed: bool | None
    kind: str = ""
    detail: str = ""
    seconds: float = 0.0

    __test__ = False  # not a test class of pytest's


@dataclass(frozen=True, slots=True)
class Tested:
    """The outcomes of the tests that ran, how many there are, and the seconds spent waiting for a free sandbox."""

    outcomes: Sequence[TestOutcome]
    total: int
    waited_s: float = 0.0

    __test__ = False

    @property
    def all_passed(self) -> bool:
        return len(self.outcomes) == self.total and all(outcome.passed for outcome in self.outcomes)


def verdict_of(tested: Tested, credit: Credit, source: str) -> Verdict:
    """The verdict on a program. A test that did not run did not pass; a test that can say nothing abstains for all."""
    outcomes, total = tested.outcomes, tested.total
    silent = next((outcome for outcome in outcomes if outcome.passed is None), None)
    extracted = source[:2000]
    if silent is not None:
        return Verdict.abstain(silent.detail, extracted=extracted)
    passed = sum(outcome.passed is True for outcome in outcomes)
    metrics = {
        "pass_rate": passed / total,
        "timeouts": float(sum(outcome.kind == "timeout" for outcome in outcomes)),
        "compile_errors": float(any(outcome.kind == "compile" for outcome in outcomes)),
        "sandbox_wait_s": tested.waited_s,
    }
    columns: dict[str, object] = {"tests_passed": passed, "tests": total}
    columns["test_seconds"] = round(sum(outcome.seconds for outcome in outcomes), 6)
    if tested.all_passed:
        return Verdict.right(extracted=extracted, metrics=metrics, columns=columns)
    place, outcome = next(
        ((i, one) for i, one in enumerate(outcomes) if not one.passed), (len(outcomes), TestOutcome(False, "not run"))
    )
    columns |= {"first_failing_test": place, "failure": f"{outcome.kind}: {outcome.detail}"[:500]}
    score = passed / total if credit == "fraction" else 0.0
    reason = f"test {place + 1} of {total}: {outcome.kind} {outcome.detail}"[:300]
    return Verdict(score, reason, extracted, metrics, columns)
