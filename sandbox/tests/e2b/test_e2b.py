"""The e2b back end: the unmodified SDK against the stand-in."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from plaudit_sandbox import (
    InfrastructureFailure,
    Limits,
    Program,
    SandboxError,
    SandboxRefused,
    open_sandbox,
)
from plaudit_sandbox.e2b import E2BBackend
from standin import KEY, Cloud

QUICK = {"creates_per_s": 1000.0}
ONE = {**QUICK, "max_sandboxes": 1, "max_sessions": 0}
SLEEPER = "import time\nprint('begun', flush=True)\ntime.sleep(60)"


async def until(happened: Callable[[], object], what: str) -> None:
    """Wait for something that must happen soon."""
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, f"not in 30 s: {what}"
        await asyncio.sleep(0.01)


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
    async with open_sandbox("e2b", limits=Limits(timeout_s=1, memory_mb=128, file_mb=8), **ONE) as box:
        result = await box.run(program)
        assert result.status in status.split(), result
        assert (await box.run("print('well')", timeout_s=20)).text == "well\n"


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


async def test_sandboxes_are_started_no_faster_than_allowed(cloud: Cloud) -> None:
    async with open_sandbox("e2b", max_sandboxes=8, max_sessions=0, creates_per_s=10) as box:
        await asyncio.gather(*(box.run("import time; time.sleep(0.5)") for _ in range(8)))
    assert len(cloud.created_at) >= 4
    gaps = [b - a for a, b in zip(cloud.created_at, cloud.created_at[1:], strict=False)]
    assert sum(gaps) / len(gaps) >= 0.09


@pytest.mark.parametrize("status", [429, 503])
async def test_a_busy_account_is_asked_again_later(cloud: Cloud, status: int) -> None:
    cloud.refuse = [status] * 3
    async with open_sandbox("e2b", max_sandboxes=1, max_sessions=0, creates_per_s=20) as box:
        assert (await box.run("print(1)")).text == "1\n"
    assert len(cloud.created_at) == 4
    first, second, third, fourth = cloud.created_at
    assert fourth - third > second - first > 0.04  # it backs off


async def test_an_account_that_stays_busy_is_an_infrastructure_failure(cloud: Cloud) -> None:
    cloud.refuse = [429] * 6
    async with open_sandbox("e2b", retries=0, **ONE) as box:
        with pytest.raises(InfrastructureFailure, match=r"turned down 6 attempts.*429.*creates_per_s"):
            await box.run("print(1)")
        assert (await box.run("print('now')")).text == "now\n"


async def test_input_that_is_turned_down_is_sent_again(cloud: Cloud) -> None:
    async with open_sandbox("e2b", **ONE) as box:
        await box.run("pass")
        cloud.refuse_input = [429] * 2
        assert (await box.run("print(input())", stdin="in")).text == "in\n"
    assert len(cloud.created_at) == 1


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


async def test_sandboxes_are_kept_alive_and_end_by_themselves_otherwise(cloud: Cloud) -> None:
    async with open_sandbox("e2b", lifetime_s=1, **ONE) as box:
        await box.run("pass")
        await until(lambda: len(cloud.extended) >= 4, "sandboxes are extended")
        assert (await box.run("print(1)")).text == "1\n"
        assert len(cloud.created_at) == 1
    assert all(asked["timeout"] == 1 for asked in cloud.asked)


async def test_what_is_asked_of_the_cloud(cloud: Cloud) -> None:
    async with open_sandbox("e2b", template="mine", **ONE) as box:
        await box.run("pass")
    assert [(asked["templateID"], asked["allow_internet_access"]) for asked in cloud.asked] == [("mine", False)]


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


async def test_no_key_is_refused(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("E2B_API_KEY")
    with pytest.raises(SandboxRefused, match="environment variable E2B_API_KEY"):
        async with open_sandbox("e2b"):
            pass


async def test_the_key_is_told_to_nobody(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    async with open_sandbox("e2b", **ONE) as box:
        result = await box.run("import os\nprint(dict(os.environ))")
        assert KEY not in result.text + repr(box) + repr(vars(box))
    wrong = KEY.replace("0", "9")
    monkeypatch.setenv("E2B_API_KEY", wrong)
    with pytest.raises(SandboxRefused, match="does not accept the API key in E2B_API_KEY") as refused:
        async with open_sandbox("e2b", **ONE):
            pass
    backend = E2BBackend()
    with pytest.raises(SandboxRefused):
        await backend.start(Limits())
    with pytest.raises(SandboxError, match="api_key"):
        async with open_sandbox("e2b", api_key=wrong):
            pass
    await backend.close()
    import traceback

    told = repr(backend) + repr(vars(backend)) + "".join(traceback.format_exception(refused.value))
    told += caplog.text + "".join(capfd.readouterr())
    assert KEY not in told
    assert wrong not in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_sandboxes": 0}, "max_sandboxes=0"),
        ({"max_sandboxes": 2, "max_sessions": 2}, "at least one sandbox"),
        ({"creates_per_s": 0}, "creates_per_s=0"),
        ({"lifetime_s": -1}, "lifetime_s=-1"),
    ],
)
async def test_wrong_options(options: dict[str, float], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        async with open_sandbox("e2b", **options):
            pass


async def test_ranks_share_the_account(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    backend = E2BBackend()
    assert (backend.max_slots, backend.max_sessions) == (3, 2)


async def test_doctor_says_what_it_stops(cloud: Cloud) -> None:
    backend = E2BBackend()
    isolation = await backend.isolation()
    await backend.close()
    assert isolation.tier == "microvm"
    assert isolation.stops
    assert isolation.does_not_stop
