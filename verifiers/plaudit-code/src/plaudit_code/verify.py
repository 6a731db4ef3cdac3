"""The `code` verifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from plaudit import Verdict, completion_text, verifier
from plaudit_sandbox import InfrastructureFailure, Limits, Sandbox, SandboxError, shared_sandbox

from plaudit_code.extract import find_program
from plaudit_code.outcome import Credit, verdict_of
from plaudit_code.reference import BadReference, Task, read_task
from plaudit_code.runs import Bounds, is_unsteady, run_tests

DEFAULT_MEMORY_MB = 512


@verifier(executor="loop", granularity="rollout", retry_on=(InfrastructureFailure,), deterministic=False)
class Code:
    """Runs the program that a completion offers in a sandbox, and compares what it gives outside of it.

    The reference says what is tested (see the README): a function's values, a program's output, or asserts. No
    expected value enters the candidate's sandbox, and nothing that the program prints, writes, raises or exits with is
    a verdict. `backend`: None = the run's. `credit`: 1 for all tests, or the fraction. `timeout_s`: of a test;
    `total_timeout_s`: of all. `repeats`: a program that reads chance or the clock must pass so often. No tests, or a
    reference that says nothing, abstains; a sandbox that breaks raises InfrastructureFailure, which a run retries and
    then abstains on.
    """

    def __init__(
        self,
        *,
        backend: str | None = None,
        backend_options: dict[str, Any] | None = None,
        credit: Credit = "all",
        timeout_s: float = 10.0,
        total_timeout_s: float = 60.0,
        memory_mb: int = DEFAULT_MEMORY_MB,
        compare: str | None = None,
        language: Literal["python", "bash", "node", "c", "cpp", "rust", "go", "java"] | None = None,
        repeats: int = 4,
        think_end: str = "</think>",
    ) -> None:
        self._backend, self._backend_options = backend, dict(backend_options or {})
        self._credit: Credit = credit
        self._timeout_s, self._total_timeout_s, self._memory_mb = timeout_s, total_timeout_s, memory_mb
        self._compare, self._language = compare, language
        self._repeats, self._think_end = max(1, repeats), think_end
        self._boxes: dict[int, Sandbox] = {}

    async def verify(self, completion: Any, reference: Any) -> Verdict:
        try:
            task = read_task(reference)
        except (BadReference, TypeError, ValueError, AttributeError) as error:
            return Verdict.abstain(f"the reference cannot be used: {error}"[:300])
        if not task.tests:
            return Verdict.abstain("the reference holds no test")
        language = self._language or task.language
        if language != "python" and task.mode != "stdio":
            return Verdict.abstain(f"{task.mode} tests are for Python; got {language}")
        text = completion_text(completion).rpartition(self._think_end)[2]
        source = find_program(text, language=language, defines=task.entry_point)
        if source is None or not source.strip():
            return Verdict.wrong(f"no {language} program in the completion")
        task = replace(task, language=language, compare=self._compare or task.compare)
        try:
            return await self._tested(f"{task.prefix}\n{source}" if task.prefix else source, task)
        except InfrastructureFailure:
            raise
        except (SandboxError, SyntaxError, ValueError) as error:
            return Verdict.abstain(f"the tests cannot be run: {error}"[:300], extracted=source[:2000])

    async def _tested(self, source: str, task: Task) -> Verdict:
        box = self._box(task.memory_mb or self._memory_mb)
        bounds = Bounds(task.timeout_s or self._timeout_s, self._total_timeout_s, stop_early=self._credit == "all")
        for _ in range(self._repeats if is_unsteady(source) else 1):
            tested = await run_tests(box, source, task, bounds)
            if not tested.all_passed:
                break
        return verdict_of(tested, self._credit, source)

    def _box(self, memory_mb: int) -> Sandbox:
        if memory_mb not in self._boxes:
            limits = Limits(timeout_s=self._timeout_s, memory_mb=memory_mb)
            self._boxes[memory_mb] = shared_sandbox(self._backend, limits=limits, **self._backend_options)
        return self._boxes[memory_mb]
