"""What a check is, and running all of them."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Literal, Protocol

from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.protocol import Sandbox
from plaudit_sandbox.result import Result

CHECK_LIMITS = Limits(timeout_s=5, memory_mb=256, processes=48, file_mb=16, disk_mb=48, output_kb=1024)
"""The limits under which the checks run; those that need others change them with `dataclasses.replace`."""

_MODULES = ("basics", "bounds", "attacks", "leaks", "stateful", "together")


class OpenBox(Protocol):
    """Opens a sandbox with given limits, e.g. `functools.partial(open_sandbox, "local")`."""

    def __call__(self, *, limits: Limits) -> AbstractAsyncContextManager[Sandbox]:
        """An open sandbox for `async with`."""
        ...


class Skip(Exception):
    """Raised by a check that does not apply here, with the reason."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a sandbox must do. run(box, open_box) raises AssertionError where it does not."""

    name: str
    run: Callable[[Sandbox, OpenBox], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one check found. detail: why it failed or was skipped. wall_s: how long it took."""

    name: str
    state: Literal["passed", "failed", "skipped"]
    detail: str
    wall_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes, in order."""

    outcomes: Sequence[Outcome] = field(default_factory=tuple)

    @property
    def ok(self) -> bool:
        """Whether something was checked and nothing failed."""
        return bool(self.outcomes) and not self.failed

    @property
    def failed(self) -> list[Outcome]:
        """Those that failed."""
        return [outcome for outcome in self.outcomes if outcome.state == "failed"]

    def __str__(self) -> str:
        counts = {
            state: sum(each.state == state for each in self.outcomes) for state in ("passed", "failed", "skipped")
        }
        lines = [", ".join(f"{count} {state}" for state, count in counts.items())]
        lines += [f"{each.state}  {each.name}: {each.detail}" for each in self.outcomes if each.state != "passed"]
        return "\n".join(lines)


def checks() -> list[Check]:
    """All checks, in order."""
    return [check for name in _MODULES for check in import_module(f"plaudit_sandbox.testing.{name}").CHECKS]


async def check_sandbox(open_box: OpenBox, *, only: Collection[str] | None = None) -> Report:
    """Run the checks (or those named) against a provider's sandboxes, one after another in one open sandbox.

    Raises SandboxError for a name that is no check's, and whatever opening the sandbox raises.
    """
    chosen = checks()
    unknown = set(only or ()) - {check.name for check in chosen}
    if unknown:
        raise SandboxError(f"no check named {', '.join(sorted(unknown))}")
    if only is not None:
        chosen = [check for check in chosen if check.name in only]
    async with open_box(limits=CHECK_LIMITS) as box:
        return Report([await _outcome(check, box, open_box) for check in chosen])


async def _outcome(check: Check, box: Sandbox, open_box: OpenBox) -> Outcome:
    began = time.monotonic()
    try:
        await check.run(box, open_box)
    except Skip as skipped:
        return Outcome(check.name, "skipped", str(skipped), time.monotonic() - began)
    except Exception as error:
        return Outcome(check.name, "failed", f"{type(error).__name__}: {error}", time.monotonic() - began)
    return Outcome(check.name, "passed", "", time.monotonic() - began)


def collect(namespace: dict[str, object]) -> list[Check]:
    """The checks of a module: its coroutine functions named check_…, in order."""
    found = [(name, value) for name, value in namespace.items() if name.startswith("check_") and callable(value)]
    return [Check(name.removeprefix("check_"), value) for name, value in found]


def describe(result: Result) -> str:
    """A result in one line, for failures."""
    return (
        f"{result.status} (exit code {result.exit_code}; {result.detail}) stdout {result.text[-300:]!r} "
        f"stderr {result.error_text[-300:]!r}"
    )


def expect(condition: bool, result: Result) -> None:
    """Raise AssertionError with the result unless `condition`."""
    if not condition:
        raise AssertionError(describe(result))
