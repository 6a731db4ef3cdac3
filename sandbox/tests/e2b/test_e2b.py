"""Runs and sessions of the e2b back end, well and lost: the unmodified SDK against the stand-in."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest
from plaudit_sandbox import (
    InfrastructureFailure,
    Limits,
    Program,
    SandboxError,
    open_sandbox,
)
from standin import Cloud
from standin_use import ONE, QUICK, SLEEPER, until


def processes(cloud: Cloud) -> list[int]:
    """The commands that run in the sandboxes: here, the agents."""
    return [pid for box in cloud.boxes.values() for pid in box.processes]


async def test_runs_sessions_files_and_calls(cloud: Cloud) -> None:
    async def upper(data: bytes) -> bytes:
        return data.upper()

    blob = bytes(range(256)) * 9000  # more than one SendInput takes
    async with open_sandbox("e2b", **QUICK) as box:
        echo = "import sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data[::-1])\n"
        echo += "open('o/x', 'wb').write(data)"
        async with open_sandbox("e2b", limits=Limits(output_kb=4096), **QUICK) as wide:
            result = await wide.run(echo, stdin=blob, files={"o/given": "g"}, collect=["o/*"])
        assert (result.status, result.stdout) == ("ok", blob[::-1]), result.error_text
        assert dict(result.files) == {"o/x": blob, "o/given": b"g"}
        called = await box.run("import plaudit_host\nprint(plaudit_host.call(b'q'))", on_call=upper)
        assert called.text == "b'Q'\n"
        shell = await box.run(Program("read x; echo $((x * 2)); exit 5", "sh"), stdin="21\n")
        assert (shell.exit_code, shell.text) == (5, "42\n")
        async with box.session() as session:
            await session.run("x = 2\nopen('kept', 'w').close()")
            assert (await session.run("import os\nx, os.path.exists('kept')")).text == "(2, True)\n"
        with pytest.raises(SandboxError, match="not installed"):
            await box.run(Program(command=["no-such-program"]))


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("while True: pass", "timeout"),
        ("hold = []\nwhile True: hold.append(bytearray(8 << 20))", "memory"),
        ("while True: print('x' * 1000)", "output"),
        ("open('f', 'wb').write(bytes(20 << 20))", "failed"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "killed"),
        ("import os\nwhile True: os.fork()", "failed timeout memory"),
    ],
)
async def test_limits(cloud: Cloud, program: str, status: str) -> None:
    async with open_sandbox("e2b", limits=Limits(timeout_s=30, memory_mb=128, file_mb=8), **ONE) as box:
        result = await box.run(program, timeout_s=1 if "timeout" in status else None)
        assert result.status in status.split(), result
        assert (await box.run("print('well')")).text == "well\n"


async def test_many_at_once_on_few_sandboxes(cloud: Cloud) -> None:
    cloud.most = 4
    async with open_sandbox("e2b", max_sandboxes=4, **QUICK) as box:
        sessions = [box.session() for _ in range(2)]
        for number, session in enumerate(sessions):
            await (await session.__aenter__()).run(f"x = {number}")
        results = await asyncio.gather(*(box.run(f"print({n}, input())", stdin=f"in{n}") for n in range(40)))
        assert [result.text for result in results] == [f"{n} in{n}\n" for n in range(40)]
        for number, session in enumerate(sessions):
            assert (await session.run("x")).text == f"{number}\n"
            await session.close()
        assert len(cloud.created_at) == cloud.most_alive <= 4


async def test_a_cancelled_run_is_killed_and_its_sandbox_used_again(cloud: Cloud, tmp_path: Path) -> None:
    async with open_sandbox("e2b", limits=Limits(timeout_s=60), **ONE) as box:
        await box.run("pass")
        quiet = children(processes(cloud)[0])
        called = asyncio.Event()

        async def begun(data: bytes) -> bytes:
            called.set()
            return b""

        program = f"import plaudit_host, os\nif os.fork(): plaudit_host.call(b'')\n{SLEEPER}"
        task = asyncio.ensure_future(box.run(program, on_call=begun))
        await asyncio.wait_for(called.wait(), 30)
        assert len(children(processes(cloud)[0])) >= len(quiet) + 2
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await box.run("print('well')")).text == "well\n"
        assert children(processes(cloud)[0]) == quiet
        assert len(cloud.created_at) == 1


async def test_a_run_cancelled_while_it_is_sent_costs_no_sandbox(cloud: Cloud) -> None:
    async with open_sandbox("e2b", **ONE) as box:
        await box.run("pass")
        for pause_s in (0.01, 0.02, 0.04, 0.1):
            task = asyncio.ensure_future(box.run("print(len(input()))", stdin=b"x" * (3 << 20)))
            await asyncio.sleep(pause_s)
            task.cancel()
            await asyncio.wait([task])
        assert (await box.run("print('well')")).text == "well\n"
        assert len(cloud.created_at) == 1


def children(pid: int) -> list[int]:
    """The processes beneath one of this machine."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *children(child)]
    return found


async def test_a_lost_sandbox_is_replaced_and_its_run_repeated(cloud: Cloud) -> None:
    async with open_sandbox("e2b", **ONE) as box:
        await box.run("pass")
        cloud.stop(next(iter(cloud.boxes)))
        assert (await box.run("print('again')")).text == "again\n"
        assert len(cloud.created_at) == 2


async def test_a_session_opens_on_a_fresh_sandbox_where_idle_ones_are_lost(cloud: Cloud) -> None:
    async with open_sandbox("e2b", max_sandboxes=4, **QUICK) as box:
        await asyncio.gather(*(box.run("import time; time.sleep(0.2)") for _ in range(2)))
        for name in list(cloud.boxes):
            cloud.stop(name)
        async with box.session() as session:
            assert (await session.run("1 + 1")).text == "2\n"


async def test_sandboxes_lost_under_a_run_convict_nobody(cloud: Cloud) -> None:
    async def lose(data: bytes) -> bytes:
        cloud.stop(next(iter(cloud.boxes)))
        return b""

    program = f"import plaudit_host\nplaudit_host.call(b'')\n{SLEEPER}"
    async with open_sandbox("e2b", limits=Limits(timeout_s=60), retries=1, **ONE) as box:
        with pytest.raises(InfrastructureFailure, match="not found"):
            await box.run(program, on_call=lose)
        assert len(cloud.created_at) == 2
        async with open_sandbox("e2b", **QUICK) as other, other.session() as session:
            with pytest.raises(InfrastructureFailure):
                await session.run(program, on_call=lose)


async def test_a_program_that_takes_its_agent_down_twice_is_killed(cloud: Cloud) -> None:
    async def take_down(data: bytes) -> bytes:
        for pid in processes(cloud):
            os.kill(pid, signal.SIGKILL)
        return b""

    program = f"import plaudit_host\nplaudit_host.call(b'')\n{SLEEPER}"
    async with open_sandbox("e2b", limits=Limits(timeout_s=60), retries=3, **ONE) as box:
        result = await box.run(program, on_call=take_down)
    assert (result.status, result.detail) == ("killed", "took its sandbox down")
    assert len(cloud.created_at) == 2


async def test_close_kills_what_is_being_created(cloud: Cloud) -> None:
    async with open_sandbox("e2b", max_sandboxes=6, creates_per_s=3) as box:
        runs = [asyncio.ensure_future(box.run(SLEEPER)) for _ in range(6)]
        await until(lambda: cloud.created_at, "a sandbox is created")
    done = await asyncio.gather(*runs, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in done)
    assert not cloud.boxes


async def test_the_start_of_a_cancelled_run_leaves_nothing(cloud: Cloud) -> None:
    async with open_sandbox("e2b", **ONE) as box:
        for pause_s in (0.002, 0.01, 0.05, 0.1, 0.2):
            task = asyncio.ensure_future(box.run(SLEEPER))
            await asyncio.sleep(pause_s)
            task.cancel()
            await asyncio.wait([task])
        assert (await box.run("print('well')")).text == "well\n"
        await until(lambda: len(cloud.boxes) == 1, "the others are gone")


async def test_what_a_profile_prints_is_no_frame(cloud: Cloud) -> None:
    cloud.profile = "echo Welcome to your template; printf 'no end of line'"
    async with open_sandbox("e2b", **ONE) as box:
        assert (await box.run("print(1)")).text == "1\n"
