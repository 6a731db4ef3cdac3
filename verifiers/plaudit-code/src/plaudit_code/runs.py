"""Running a candidate on the tests of each mode. Every comparison is made here, in the parent."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from plaudit_sandbox import Program, Result, Sandbox

from plaudit_code.asserts import SplitAssert, WholeTest, take_apart
from plaudit_code.candidate import Answer, Candidate, run_whole_test
from plaudit_code.compare import same_output, same_value, tolerance_of
from plaudit_code.outcome import Tested, TestOutcome
from plaudit_code.reference import FunctionTest, OutputTest, Task

Step = Callable[[Candidate, float], Awaitable[tuple[TestOutcome, bool]]]
"""One test: given the candidate and the seconds it may take, its outcome and whether the candidate is gone."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds a test and all tests may take; `stop_early`: end at the first test that fails."""

    test_s: float
    total_s: float
    stop_early: bool


async def run_tests(box: Sandbox, source: str, task: Task, bounds: Bounds) -> Tested:
    """Run the program on all tests of the task, in order; fewer where it stopped early."""
    if task.mode == "stdio":
        return await _run_output_tests(box, source, task, bounds)
    steps = _function_steps(task) if task.mode == "function" else _assert_steps(box, task)
    outcomes, waited_s = await _with_candidate(box, source, task, bounds, steps)
    return Tested(outcomes, len(steps), waited_s)


def _function_steps(task: Task) -> list[Step]:
    tolerance = tolerance_of(task.compare)

    def step(test: FunctionTest) -> Step:
        async def run(candidate: Candidate, limit_s: float) -> tuple[TestOutcome, bool]:
            answer = await candidate.call(test.args, test.kwargs, limit_s)
            return _judged(answer, test, tolerance), answer.ended

        return run

    return [step(test) for test in task.tests if isinstance(test, FunctionTest)]


def _assert_steps(box: Sandbox, task: Task) -> list[Step]:
    """Conditions against literals are split and compared here; all else runs in a sandbox of its own."""

    def step(part: SplitAssert | WholeTest) -> Step:
        async def split(candidate: Candidate, limit_s: float) -> tuple[TestOutcome, bool]:
            assert isinstance(part, SplitAssert)
            answer = await candidate.evaluate(part.expression, limit_s)
            if answer.error is not None:
                return _failed(answer), answer.ended
            passed = part.passes(answer.value)
            return TestOutcome(passed, "" if passed else "wrong", part.expression), False

        async def whole(candidate: Candidate, limit_s: float) -> tuple[TestOutcome, bool]:
            assert isinstance(part, WholeTest)
            passed, why = await run_whole_test(box, candidate, part, task, timeout_s=limit_s)
            return TestOutcome(passed, "" if passed else "wrong", why), True

        return split if isinstance(part, SplitAssert) else whole

    texts = [text for text in task.tests if isinstance(text, str)]
    return [step(part) for text in texts for part in take_apart(text, task.entry_point)]


async def _with_candidate(
    box: Sandbox, source: str, task: Task, bounds: Bounds, steps: Sequence[Step]
) -> tuple[list[TestOutcome], float]:
    """The outcome of each step, and the seconds waited. A program that ended at one is started again for the next."""
    outcomes: list[TestOutcome] = []
    left, waited = bounds.total_s, 0.0
    while len(outcomes) < len(steps) and left > 0:
        async with Candidate(box, source, entry=task.entry_point, total_s=left + bounds.test_s) as candidate:
            waited += candidate.waited_s
            deadline = time.monotonic() + left
            trouble = await _prepared(candidate, task, min(bounds.test_s, left))
            if trouble is not None:
                return [*outcomes, trouble], waited
            ended = False
            while not ended and len(outcomes) < len(steps) and time.monotonic() < deadline:
                started = time.monotonic()
                outcome, ended = await steps[len(outcomes)](candidate, min(bounds.test_s, deadline - started))
                outcomes.append(replace(outcome, seconds=time.monotonic() - started))
                if bounds.stop_early and not outcome.passed:
                    return outcomes, waited
            left = deadline - time.monotonic()
    return (outcomes if len(outcomes) == len(steps) else [*outcomes, _out_of_time(bounds)]), waited


def _out_of_time(bounds: Bounds) -> TestOutcome:
    return TestOutcome(False, "timeout", f"all tests together took longer than {bounds.total_s:g} s")


async def _prepared(candidate: Candidate, task: Task, limit_s: float) -> TestOutcome | None:
    """Run the program's own statements and the setup; the outcome that all tests get where this fails."""
    loaded = await candidate.load(limit_s)
    if loaded.error is not None:
        return _failed(loaded)
    if task.setup:
        set_up = await candidate.ask({"do": "exec", "source": task.setup}, limit_s)
        if set_up.error is not None:
            return _failed(set_up)
    return None


def _judged(answer: Answer, test: FunctionTest, tolerance: float | None) -> TestOutcome:
    if test.raises is not None:
        right = answer.error == test.raises and not answer.ended
        return TestOutcome(right, "" if right else "wrong", "" if right else f"expected {test.raises}")
    if answer.error is not None:
        return _failed(answer)
    if not same_value(answer.value, test.expect, tolerance):
        return TestOutcome(False, "wrong", f"returned {answer.value!r}"[:300])
    if test.args_after is not None and not same_value(answer.args_after, list(test.args_after), tolerance):
        return TestOutcome(False, "wrong", f"left the arguments as {answer.args_after!r}"[:300])
    return TestOutcome(True)


def _failed(answer: Answer) -> TestOutcome:
    kind = answer.error or "error"
    return TestOutcome(
        False, "compile" if kind in ("SyntaxError", "IndentationError", "TabError") else kind, answer.message
    )


async def _run_output_tests(box: Sandbox, source: str, task: Task, bounds: Bounds) -> Tested:
    program = Program(source, language=task.language)
    outcomes: list[TestOutcome] = []
    waited = 0.0
    deadline = time.monotonic() + bounds.total_s
    for test in task.tests:
        assert isinstance(test, OutputTest)
        left = deadline - time.monotonic()
        if left <= 0:
            outcomes.append(_out_of_time(bounds))
            break
        result = await box.run(program, stdin=test.stdin, files=task.files, timeout_s=min(bounds.test_s, left))
        waited += result.queue_s
        outcomes.append(_judged_output(result, test, task.compare or "tokens"))
        if outcomes[-1].kind == "compile" or (bounds.stop_early and not outcomes[-1].passed):
            break
    return Tested(outcomes, len(task.tests), waited)


def _judged_output(result: Result, test: OutputTest, how: str) -> TestOutcome:
    """A program that ended badly has failed, whatever it printed before."""
    tail = result.error_text.strip()[-300:]
    if not result.ok:
        kind = "compile" if _syntax_error(tail) else {"failed": "error"}.get(result.status, result.status)
        return TestOutcome(False, kind, result.detail or tail, result.wall_s)
    passed = same_output(result.text, test.stdout, how)
    return TestOutcome(
        passed, "" if passed else "wrong", "" if passed else f"printed {result.text[:200]!r}", result.wall_s
    )


def _syntax_error(tail: str) -> bool:
    return tail.rsplit("\n", 1)[-1].startswith(("SyntaxError", "IndentationError", "TabError"))


def is_unsteady(source: str) -> bool:
    """Whether a program reads chance or the clock, so that one run that passes proves little."""
    return any(word in source for word in ("random", "time", "urandom", "uuid", "secrets", "threading", "hash(", "id("))
