"""Where no agent starts: one command a run, each in a sandbox of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from plaudit_sandbox import InfrastructureFailure, Limits, Program, Sandbox, SandboxError, SandboxRefused, open_sandbox
from standin import Cloud

OPTIONS = {"creates_per_s": 1000.0, "max_sandboxes": 4}
AWKWARD = "x 'y\" $HOME `ls` \\ ü"


@pytest.fixture
async def box(cloud: Cloud) -> AsyncIterator[Sandbox]:
    """A sandbox of a cloud whose commands have no stdin."""
    cloud.stdin = False
    async with open_sandbox("e2b", limits=Limits(timeout_s=20, file_mb=8), **OPTIONS) as box:
        yield box


async def test_data_in_and_out(box: Sandbox) -> None:
    program = (
        "import os, sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data[::-1])\n"
        "print(sys.argv[1], os.environ['GIVEN'], 'E2B_API_KEY' in os.environ, file=sys.stderr)\n"
        "os.makedirs('o/deep')\nopen('o/deep/x', 'wb').write(data)\nos.symlink('/etc/passwd', 'o/link')"
    )
    every_byte = bytes(range(256))
    result = await box.run(
        Program(program, arguments=[AWKWARD]),
        stdin=every_byte,
        env={"GIVEN": AWKWARD},
        files={"a b/given": b"\xff"},
        collect=["o/*", "a b/*"],
    )
    assert (result.status, result.stdout) == ("ok", every_byte[::-1]), result.error_text
    assert result.error_text == f"{AWKWARD} {AWKWARD} False\n"
    assert dict(result.files) == {"o/deep/x": every_byte, "a b/given": b"\xff"}


@pytest.mark.parametrize(
    ("program", "status", "exit_code", "said"),
    [
        ("raise SystemExit(7)", "failed", 7, ""),
        ("1 / 0", "failed", 1, "ZeroDivisionError"),
        ("print('never'\n", "compile", 1, "SyntaxError"),
        ("while True: pass", "timeout", None, ""),
        ("while True: print('x' * 1000)", "output", None, "x"),
        ("open('f', 'wb').write(bytes(20 << 20))", "failed", 1, "File too large"),
        ("import os\nos.kill(os.getpid(), 9)", "killed", -9, ""),
        ("import os\nos.kill(os.getppid(), 9)", "killed failed", None, ""),
        (Program("int main(void) { return 3; }", "c"), "failed", 3, ""),
        (Program("int main(void) { return }", "c"), "compile", 1, "error"),
        (Program("read x; echo $x; exit 5", "bash"), "failed", 5, "21"),
    ],
)
async def test_how_it_ended(box: Sandbox, program: str | Program, status: str, exit_code: int, said: str) -> None:
    if isinstance(program, Program) and program.language == "c" and not shutil.which("gcc"):
        pytest.skip("no gcc here")
    result = await box.run(program, stdin="21\n", timeout_s=1.5 if status == "timeout" else None)
    assert result.status in status.split(), result
    if exit_code is not None or " " not in status:
        assert result.exit_code == exit_code
    assert said in result.text + result.error_text
    assert not result.ok
    assert len(result.stdout) <= 1 << 20


async def test_no_run_sees_another(box: Sandbox, cloud: Cloud) -> None:
    for _ in range(2):
        result = await box.run("import os\nprint(os.path.exists('../left'))\nopen('../left', 'w').close()")
        assert result.text == "False\n", result.error_text
    assert len(cloud.created_at) == 2


async def test_many_at_once(box: Sandbox, cloud: Cloud) -> None:
    results = await asyncio.gather(*(box.run(f"print({n}, input())", stdin=f"in{n}") for n in range(6)))
    assert [result.text for result in results] == [f"{n} in{n}\n" for n in range(6)]
    assert cloud.most_alive <= 4


async def test_a_cancelled_run_ends_with_its_sandbox(box: Sandbox, cloud: Cloud) -> None:
    task = asyncio.ensure_future(box.run("while True: pass"))
    while not any(each.processes for each in cloud.boxes.values()):
        await asyncio.sleep(0.01)
    pids = [pid for each in cloud.boxes.values() for pid in each.processes]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        await asyncio.sleep(0.01)


async def test_what_needs_an_agent_is_refused(box: Sandbox) -> None:
    async def answer(data: bytes) -> bytes:
        return data

    with pytest.raises(SandboxRefused, match=r"Python 3\.10 or later"):
        await box.run("pass", on_call=answer)
    with pytest.raises(SandboxRefused, match=r"Python 3\.10 or later"):
        async with box.session():
            pass
    with pytest.raises(SandboxError, match="'no-such-program' is not installed"):
        await box.run(Program(command=["no-such-program"]))


async def test_a_template_without_python(cloud: Cloud, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("sh", "bash", "mkdir", "chmod", "timeout", "env", "date", "head", "find", "sort", "unshare", "mount"):
        os.symlink(shutil.which(name) or f"/missing/{name}", tmp_path / name)
    cloud.path = str(tmp_path)
    cloud.profile = f"PATH={tmp_path}"
    caplog.set_level(logging.WARNING)
    async with open_sandbox("e2b", **OPTIONS) as box:
        result = await box.run(Program("read x; echo $x", "bash"), stdin="21\n")
        assert (result.status, result.text) == ("ok", "21\n"), result
        with pytest.raises(SandboxError, match="'python3' is not installed"):
            await box.run("print(1)")
    assert "no agent starts in E2B's sandboxes" in caplog.text
    assert "python3" in caplog.text


async def test_an_agent_that_fails_where_others_started_changes_nothing(cloud: Cloud) -> None:
    async with open_sandbox("e2b", retries=0, **OPTIONS) as box:
        await box.run("pass")
        cloud.stop(next(iter(cloud.boxes)))
        await asyncio.sleep(0.1)
        cloud.stdin = False
        for expected in ("not found|is gone|went away", "this time no agent started"):
            with pytest.raises(InfrastructureFailure, match=expected):
                await box.run("pass")
        cloud.stdin = True
        async with box.session() as session:
            assert (await session.run("1 + 1")).text == "2\n"
