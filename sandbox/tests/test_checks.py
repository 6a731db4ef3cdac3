"""The self-check against each back end: one row a check, the attacks by name."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from plaudit_sandbox import Limits, SandboxError
from plaudit_sandbox.testing import CHECK_LIMITS, OpenBox, check_sandbox, checks


@pytest.mark.parametrize("name", [check.name for check in checks()])
async def test_holds(name: str, open_box: OpenBox) -> None:
    report = await check_sandbox(open_box, only=[name])
    outcome = report.outcomes[0]
    if outcome.state == "skipped":
        pytest.skip(outcome.detail)
    assert report.ok, str(report)


def test_there_are_many_checks_and_no_two_share_a_name() -> None:
    names = [check.name for check in checks()]
    assert len(names) == len(set(names))
    assert len(names) >= 120


async def test_an_unknown_check_is_refused() -> None:
    with pytest.raises(SandboxError, match="no check named nonsense"):
        await check_sandbox(lambda limits: None, only=["nonsense"])  # type: ignore[arg-type, return-value]


async def test_a_sandbox_that_does_not_hold_fails() -> None:
    """The checks can fail: a provider that runs programs as they are is found out by most attacks that need no root."""
    import subprocess
    import sys

    class Bare:
        limits: Limits = CHECK_LIMITS

        async def run(self, program, *, stdin=b"", **more):  # type: ignore[no-untyped-def]
            from plaudit_sandbox import Result

            done = subprocess.run([sys.executable, "-c", program], input=stdin, capture_output=True, timeout=20)
            status = "ok" if done.returncode == 0 else "failed"
            return Result(status, done.returncode, done.stdout, done.stderr, 0.0, 0.0, 0.0)  # type: ignore[arg-type]

    @asynccontextmanager
    async def bare(*, limits: Limits):  # type: ignore[no-untyped-def]
        yield Bare()

    names = ["host_file_by_path", "environment_of_host", "loopback", "abstract_socket", "socket_file", "namespaces"]
    report = await check_sandbox(bare, only=[*names, "prints"])  # type: ignore[arg-type]
    assert {outcome.name for outcome in report.failed} >= set(names) - {"namespaces"}
    assert "prints" not in {outcome.name for outcome in report.failed}
    assert not report.ok
    assert "failed  loopback" in str(report)
