"""Slots, retries and recycling, with the bundled agent in plain subprocesses over pipes and over lines of text."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import Hashable

import pytest
from plaudit_sandbox import InfrastructureFailure, Isolation, Limits, SandboxError, open_sandbox, opening
from plaudit_sandbox.bundle import agent_source


class PipeTransport:
    """An agent as a child of this process."""

    def __init__(self, process: asyncio.subprocess.Process, *, lines: bool) -> None:
        self.process, self.lines = process, lines
        self.closed = False

    async def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def receive(self) -> bytes:
        assert self.process.stdout is not None
        if self.lines:
            return base64.b64decode(await self.process.stdout.readline())
        return await self.process.stdout.read(65536)

    async def close(self) -> None:
        self.closed = True
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def over_memory(self) -> bool:
        return False


class PipeBackend:
    """No isolation beyond the agent's own: for tests of what all back ends share."""

    name = "pipe"
    max_sessions = 2

    def __init__(
        self,
        *,
        max_slots: int = 2,
        recycle_after: int | None = None,
        fail: int = 0,
        lines: bool = False,
        before: str = "",
    ) -> None:
        self.before = before
        self.max_slots, self.recycle_after, self.lines = max_slots, recycle_after, lines
        self.failures_left = fail
        self.started: list[PipeTransport] = []
        self.closings = 0
        self.numbers = itertools.count()
        self.scratch = tempfile.TemporaryDirectory()

    def slot_key(self, limits: Limits) -> Hashable:
        return limits.memory_mb

    async def start(self, limits: Limits) -> PipeTransport:
        if self.failures_left:
            self.failures_left -= 1
            raise InfrastructureFailure("no luck")
        scratch = f"{self.scratch.name}/{next(self.numbers)}"
        source = self.before + agent_source(scratch=scratch, landlock=False, lines=self.lines)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            "-c",
            source,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        os.chmod(self.scratch.name, 0o755)
        self.started.append(PipeTransport(process, lines=self.lines))
        return self.started[-1]

    async def isolation(self) -> Isolation:
        return Isolation("pipe", "none", (), ("anything",))

    async def close(self) -> None:
        self.closings += 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[PipeBackend]:
    """The back ends that `open_sandbox("pipe")` made."""
    backends: list[PipeBackend] = []

    def make(name: str, options: dict[str, object]) -> PipeBackend:
        backends.append(PipeBackend(**options))  # type: ignore[arg-type]
        return backends[-1]

    monkeypatch.setattr(opening, "make_backend", make)
    return backends


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="bytes"),
        pytest.param({"lines": True}, id="lines"),
        pytest.param({"before": "import os\ndel os.pidfd_open\n"}, id="without-pidfd"),
        pytest.param({"before": "import mmap\nmmap.MADV_DONTFORK = -1\n"}, id="without-dontfork"),
    ],
)
async def test_the_bundled_agent_runs_programs(made: list[PipeBackend], options: dict[str, object]) -> None:
    async def upper(data: bytes) -> bytes:
        return data.upper()

    async with open_sandbox("pipe", **options) as box:
        result = await box.run("print(input()[::-1])", stdin="stressed", files={"a/b": b"\xff"}, collect=["a/*"])
        assert (result.status, result.text, dict(result.files)) == ("ok", "desserts\n", {"a/b": b"\xff"})
        called = await box.run("import plaudit_host\nprint(plaudit_host.call(b'q'))", on_call=upper)
        assert called.text == "b'Q'\n"
        async with box.session() as session:
            await session.run("x = 2")
            assert (await session.run("x")).text == "2\n"
    assert all(transport.closed for transport in made[0].started)
    assert made[0].closings == 1


async def test_failed_starts_are_retried_and_then_raised(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe", fail=2, retries=2) as box:
        assert (await box.run("print(1)")).text == "1\n"
    async with open_sandbox("pipe", fail=9, retries=2) as box:
        with pytest.raises(InfrastructureFailure, match="no luck"):
            await box.run("print(1)")
    assert made[1].failures_left == 6


async def test_failed_starts_of_sessions_are_retried_and_then_raised(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe", fail=2, retries=2) as box, box.session() as session:
        assert (await session.run("1 + 1")).text == "2\n"
    async with open_sandbox("pipe", fail=9, retries=2) as box:
        with pytest.raises(InfrastructureFailure, match="no luck"):
            await box.session().__aenter__()
    assert made[1].failures_left == 6


async def test_a_slot_that_dies_is_replaced_and_the_run_repeated(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe", max_slots=1) as box:
        await box.run("pass")
        made[0].started[0].process.send_signal(signal.SIGKILL)
        assert (await box.run("print('again')")).text == "again\n"
        assert len(made[0].started) == 2


async def test_a_program_that_takes_its_agent_down_each_time_is_killed_not_excused(made: list[PipeBackend]) -> None:
    async def take_down(data: bytes) -> bytes:
        made[0].started[-1].process.send_signal(signal.SIGKILL)
        await asyncio.sleep(0.2)
        return b""

    async with open_sandbox("pipe", max_slots=1, retries=3) as box:
        result = await box.run("import plaudit_host\nplaudit_host.call(b'')", on_call=take_down)
    assert (result.status, result.detail) == ("killed", "took its sandbox down")
    assert len(made[0].started) == 2


async def test_idle_agents_that_died_convict_nobody(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe", max_slots=3) as box:
        await asyncio.gather(*(box.run("import time; time.sleep(0.3)") for _ in range(3)))
        for transport in made[0].started:
            transport.process.send_signal(signal.SIGKILL)
        assert (await box.run("print('well')")).text == "well\n"


async def test_agents_are_recycled(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe", max_slots=1, recycle_after=3) as box:
        for _ in range(7):
            await box.run("pass")
        assert len(made[0].started) == 3


async def test_a_session_gives_its_agent_back_clean(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe", max_slots=1) as box:
        for _ in range(3):
            async with box.session() as session:
                assert (await session.run("'x' in globals()")).text == "False\n"
                await session.run("x = 1\nopen('left', 'w').close()")
            assert (await box.run("import os\nprint(os.listdir())")).text == "['main.py']\n"
        assert len(made[0].started) == 1


async def test_closing_a_session_ends_a_run_under_way(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe") as box:
        session = await box.session().__aenter__()
        hanging = asyncio.ensure_future(session.run("while True: pass", timeout_s=60))
        await asyncio.sleep(0.3)
        await session.close()
        await asyncio.wait_for(asyncio.wait([hanging]), 10)
        assert (await box.run("print('well')")).text == "well\n"


async def test_no_more_agents_than_slots_and_other_limits_take_their_place(made: list[PipeBackend]) -> None:
    async with (
        open_sandbox("pipe", max_slots=2) as box,
        open_sandbox("pipe", max_slots=2, limits=Limits(memory_mb=99)) as other,
    ):
        results = await asyncio.gather(*(box.run("import time; time.sleep(0.05); print(1)") for _ in range(8)))
        assert all(result.text == "1\n" for result in results)
        assert len(made) == 1
        assert len(made[0].started) == 2
        assert (await other.run("print(2)")).text == "2\n"
        assert len(made[0].started) == 3
        await asyncio.sleep(0.2)
        assert sum(not transport.closed for transport in made[0].started) == 2


async def test_an_error_of_the_host_call_reaches_the_caller(made: list[PipeBackend]) -> None:
    async def broken(data: bytes) -> bytes:
        raise KeyError("mine")

    async with open_sandbox("pipe", max_slots=1) as box:
        with pytest.raises(KeyError, match="mine"):
            await box.run("import plaudit_host\nplaudit_host.call(b'')", on_call=broken)
        assert (await box.run("print('well')")).text == "well\n"


async def test_a_closed_sandbox_says_so(made: list[PipeBackend]) -> None:
    async with open_sandbox("pipe") as box:
        pass
    with pytest.raises(SandboxError, match="closed"):
        await box.run("pass")
