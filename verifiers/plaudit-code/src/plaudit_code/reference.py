"""What a reference asks for, brought to one form: tests of a function, of a program's output, or asserts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Mode = Literal["function", "stdio", "assert"]
_POWER = re.compile(r"<str\((\d{1,4})\*\*(\d{1,6})\)>")
_MAX_POWER_DIGITS = 200_000


class BadReference(ValueError):
    """The reference does not say what is to be tested."""


@dataclass(frozen=True, slots=True)
class FunctionTest:
    """Call with `args` and `kwargs`; expect a value, arguments as they are afterwards, or an exception's name."""

    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    expect: Any = None
    args_after: Sequence[Any] | None = None
    raises: str | None = None


@dataclass(frozen=True, slots=True)
class OutputTest:
    """Run with `stdin`; expect `stdout`."""

    stdin: str
    stdout: str


@dataclass(frozen=True, slots=True)
class Task:
    """Everything a reference says. `compare` None is each mode's default; None limits are the verifier's."""

    mode: Mode
    tests: tuple[FunctionTest | OutputTest | str, ...]
    entry_point: str | None = None
    language: str = "python"
    compare: str | None = None
    timeout_s: float | None = None
    memory_mb: int | None = None
    setup: str = ""
    prefix: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


def read_task(reference: Any) -> Task:
    """The task of a reference in our own form, or in that of APPS, LiveCodeBench, HumanEval or MBPP.

    Raises BadReference.
    """
    if isinstance(reference, str):
        try:
            reference = json.loads(reference)
        except json.JSONDecodeError as error:
            raise BadReference(f"the reference is not JSON: {error.msg}") from error
    if isinstance(reference, list):
        reference = {"mode": "assert", "tests": reference}
    if not isinstance(reference, Mapping):
        raise BadReference("the reference needs 'tests'")
    mode = reference.get("mode") or _mode_of(reference)
    readers = {"function": _function_tests, "stdio": _output_tests, "assert": _assert_tests}
    if mode not in readers:
        raise BadReference(f"mode must be one of {', '.join(readers)}; got {mode!r}")
    entry = reference.get("entry_point") or reference.get("fn_name")
    if mode == "function" and not entry:
        raise BadReference("function tests need 'entry_point'")
    return Task(
        mode=mode,
        tests=tuple(readers[mode](reference)),
        entry_point=entry,
        language=str(reference.get("language") or "python"),
        compare=reference.get("compare"),
        timeout_s=reference.get("timeout_s"),
        memory_mb=reference.get("memory_mb"),
        setup=str(reference.get("setup") or reference.get("test_setup_code") or ""),
        prefix=str(reference.get("prefix") or ""),
        files=dict(reference.get("files") or {}),
    )


def _mode_of(reference: Mapping[str, Any]) -> str:
    if "test" in reference or "test_list" in reference:
        return "assert"
    if "inputs" in reference:
        return "function" if reference.get("fn_name") else "stdio"
    first = next(iter(reference.get("tests") or []), {})
    if isinstance(first, str):
        return "assert"
    return "stdio" if "stdout" in first or "output" in first else "function"


def _function_tests(reference: Mapping[str, Any]) -> list[FunctionTest]:
    if "inputs" in reference:
        pairs = zip(reference["inputs"], reference["outputs"], strict=True)
        return [FunctionTest(args, {}, expect=_unwrapped(output)) for args, output in pairs]
    return [_function_test(test) for test in reference.get("tests") or []]


def _function_test(test: Any) -> FunctionTest:
    if not isinstance(test, Mapping) or not {"expect", "args_after", "raises"} & set(test):
        raise BadReference("a function test needs 'args' and 'expect', 'args_after' or 'raises'")
    return FunctionTest(
        test.get("args") or [], test.get("kwargs") or {}, test.get("expect"), test.get("args_after"), test.get("raises")
    )


def _unwrapped(output: Any) -> Any:
    """APPS writes a function's value as a list of one."""
    return output[0] if isinstance(output, list) and len(output) == 1 else output


def _output_tests(reference: Mapping[str, Any]) -> list[OutputTest]:
    if "inputs" in reference:
        pairs = zip(reference["inputs"], reference["outputs"], strict=True)
    else:
        tests = reference.get("tests") or []
        pairs = zip(
            (test.get("stdin", test.get("input", "")) for test in tests),
            (test.get("stdout", test.get("output")) for test in tests),
            strict=True,
        )
    return [OutputTest(_text(stdin), _expanded(_text(stdout))) for stdin, stdout in pairs]


def _text(value: Any) -> str:
    if value is None:
        raise BadReference("an output test needs 'stdout'")
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _expanded(text: str) -> str:
    """`<str(2**20000)>` stands for that number's digits, which would make a long reference."""
    return _POWER.sub(lambda match: _digits(int(match.group(1)), int(match.group(2))), text)


def _digits(base: int, exponent: int) -> str:
    from decimal import Context

    if exponent * len(str(base)) > _MAX_POWER_DIGITS:
        raise BadReference(f"{base}**{exponent} has too many digits")
    return f"{Context(prec=_MAX_POWER_DIGITS).power(base, exponent):f}"


def _assert_tests(reference: Mapping[str, Any]) -> list[str]:
    tests = reference.get("tests") or reference.get("test_list") or reference.get("test") or []
    return [tests] if isinstance(tests, str) and tests.strip() else [str(test) for test in tests]
