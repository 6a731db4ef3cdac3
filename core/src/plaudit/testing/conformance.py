"""What every conformance check shares: named checks, a report, and the runs in threads and processes."""

from __future__ import annotations

import asyncio
import inspect
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

THREADS = 8
PROCESS_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Report:
    """What held and what did not: the message of each failed check by its name, and why checks were skipped."""

    passed: tuple[str, ...]
    failed: Mapping[str, str]
    skipped: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} checks passed, {len(self.failed)} failed, {len(self.skipped)} skipped"]
        lines += [f"  failed {name}: {message}" for name, message in self.failed.items()]
        lines += [f"  skipped {name}: {reason}" for name, reason in self.skipped.items()]
        return "\n".join(lines)


class Skip(Exception):
    """Raised by a check that does not apply; its message says why."""


def run_checks(checks: Mapping[str, Callable[[], None]], what: str) -> Report:
    """Run every check. Raises AssertionError that lists all failures, so that one run shows everything to mend."""
    passed: list[str] = []
    failed: dict[str, str] = {}
    skipped: dict[str, str] = {}
    for name, check in checks.items():
        try:
            check()
            passed.append(name)
        except Skip as reason:
            skipped[name] = str(reason)
        except AssertionError as error:
            failed[name] = str(error) or "the check failed"
        except Exception as error:
            failed[name] = f"raised {type(error).__name__}: {error}"
    report = Report(tuple(passed), failed, skipped)
    if failed:
        raise AssertionError(f"{what} does not conform: {report}")
    return report


def finished(returned: Any) -> Any:
    """The value, or what a coroutine comes to."""
    return asyncio.run(returned) if inspect.iscoroutine(returned) else returned


def same_in_threads(call: Callable[[], Any], expected: Any) -> None:
    """Fail unless THREADS calls at the same time give what one call gave."""
    with ThreadPoolExecutor(THREADS) as pool:
        results = [future.result() for future in [pool.submit(call) for _ in range(THREADS)]]
    different = [result for result in results if result != expected]
    assert not different, (
        f"{len(different)} of {THREADS} calls at once gave {different[0]!r}, alone it gives {expected!r}"
    )


def same_in_process(component: Any, arguments: Sequence[tuple[str, Any]], expected: Any) -> None:
    """Fail unless a fresh process, given the pickled component, gives the same."""
    try:
        payload = pickle.dumps((component, dict(arguments)))
    except Exception as error:
        raise AssertionError(f"it cannot be pickled ({error}), so no other process can run it") from error
    program = (
        "import asyncio, inspect, pickle, sys\n"
        "component, arguments = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "value = component(**arguments)\n"
        "value = asyncio.run(value) if inspect.iscoroutine(value) else value\n"
        "open(sys.argv[2], 'wb').write(pickle.dumps(value))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        sent, answer = Path(folder) / "sent", Path(folder) / "answer"
        sent.write_bytes(payload)
        command = [sys.executable, "-c", program, str(sent), str(answer)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROCESS_TIMEOUT_S, check=False)
        assert answer.exists(), f"another process cannot run it: {done.stderr.strip()[-500:]}"
        value = pickle.loads(answer.read_bytes())
    assert value == expected, f"another process gives {value!r}, this one {expected!r}"


def unchanged(before: Any, after: Any) -> None:
    """Fail if the call edited its arguments."""
    assert before == after, "it edits its arguments; another reward would see the change"
