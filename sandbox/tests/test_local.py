"""The local back end as a user meets it: pools, loops, threads, forks, ends, refusals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest
from plaudit_sandbox import Limits, Program, SandboxError, SandboxRefused, open_sandbox
from plaudit_sandbox.testing import OpenBox

EVERY_LIMIT = Limits()


def descendants(root: int) -> list[int]:
    """Living processes beneath `root`, by /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found: list[int] = []
    layer = {root}
    while layer:
        layer = {pid for pid, parent in parents.items() if parent in layer}
        found += layer
    return found


def left_by(pids: set[int]) -> list[Path]:
    """Folders and cgroups that a nursery among these processes made: plaudit-PID-…"""
    made = [*Path(tempfile.gettempdir()).glob("plaudit-*"), *Path("/sys/fs/cgroup").glob("**/plaudit-*")]
    return [path for path in made if path.name.split("-")[1] in map(str, pids)]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("nowhere", {}, "no sandbox back end named 'nowhere'; installed: .*local"),
        ("local", {"no_such_option": 1}, "no_such_option"),
        ("local", {"tier": "steel"}, "expected one of namespaces, landlock, unsafe"),
        ("local", {"tier": "unsafe"}, "allow_unsafe=True"),
        ("local", {"preload": ["no_such_module"]}, "preload 'no_such_module'"),
    ],
)
async def test_wrong_options(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        async with open_sandbox(name, **options):
            pass


async def test_it_refuses_rather_than_run_unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    from plaudit_sandbox.local import client

    monkeypatch.setattr(client, "_BOOT", client._BOOT.replace("main(**", "import os; os.abort(); main(**"))
    with pytest.raises(SandboxError):
        async with open_sandbox("local", max_slots=1):
            pass


async def test_the_message_of_a_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    from plaudit_sandbox.local import client

    broken = "from plaudit_sandbox.local import namespaces, nursery\nfrom plaudit_sandbox.agent import landlock\n"
    broken += (
        "def refuse(*a): raise PermissionError(1, 'not here')\nnamespaces.enter = refuse\nlandlock.abi = lambda: 0\n"
    )
    monkeypatch.setattr(client, "_BOOT", client._BOOT.replace("main(**", broken + "main(**"))
    with pytest.raises(SandboxRefused, match=r"namespaces: .*not here.*landlock: .*docker or e2b.*allow_unsafe=True"):
        async with open_sandbox("local", max_slots=1):
            pass
    async with open_sandbox("local", max_slots=1, allow_unsafe=True) as box:
        assert (await box.run("print(1)")).text == "1\n"


async def test_a_close_leaves_nothing(open_local: OpenBox) -> None:
    import functools

    assert isinstance(open_local, functools.partial)
    before = set(descendants(os.getpid()))
    async with open_local(limits=Limits(timeout_s=30), max_slots=3) as box:  # type: ignore[call-arg]
        hanging = [asyncio.ensure_future(box.run("import os\nos.fork()\nwhile True: pass")) for _ in range(2)]
        session = await box.session().__aenter__()
        await session.run("import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])")
        await asyncio.sleep(0.3)
        during = set(descendants(os.getpid())) - before
        assert len(during) > 4
        assert left_by(during)
    done = await asyncio.gather(*hanging, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in done)
    assert set(descendants(os.getpid())) <= before
    assert not left_by(during)


SCRIPT = """
import asyncio, os, sys
from plaudit_sandbox import Limits, open_sandbox
async def main():
    async with open_sandbox("local", limits=Limits(timeout_s=60), max_slots=2) as box:
        runs = [asyncio.ensure_future(box.run("import os\\nos.fork()\\nwhile True: pass")) for _ in range(2)]
        await asyncio.sleep(0.5)
        print("running", flush=True)
        await asyncio.gather(*runs)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_trainer_that_is_killed(number: int, open_local: OpenBox) -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    below = descendants(process.pid)
    assert len(below) >= 4
    process.send_signal(number)
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in below):
        assert time.monotonic() < deadline, [pid for pid in below if Path(f"/proc/{pid}").exists()]
        time.sleep(0.05)


def test_one_pool_serves_every_loop_and_thread(open_local: OpenBox) -> None:
    async def use() -> str:
        async with open_local(limits=EVERY_LIMIT) as box:
            return (await box.run("print('here')")).text

    assert asyncio.run(use()) == "here\n"
    texts: list[str] = []
    threads = [threading.Thread(target=lambda: texts.append(asyncio.run(use()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == ["here\n"] * 4


def test_a_forked_child_has_a_pool_of_its_own(open_local: OpenBox) -> None:
    script = textwrap.dedent("""
        import asyncio, os
        from plaudit_sandbox import open_sandbox, shared_sandbox
        box = shared_sandbox("local", max_slots=1)
        print(asyncio.run(box.run("print('parent')")).text, end="", flush=True)
        if os.fork() == 0:
            async def child():
                async with open_sandbox("local", max_slots=1) as own:
                    print((await own.run("print('child')")).text, end="", flush=True)
            asyncio.run(child())
            print(asyncio.run(box.run("print('child by the same box')")).text, end="", flush=True)
            os._exit(0)
        os.wait()
        print(asyncio.run(box.run("print('parent again')")).text, end="", flush=True)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "parent\nchild\nchild by the same box\nparent again\n", done.stderr


async def test_preloaded_modules_are_there(open_local: OpenBox) -> None:
    pytest.importorskip("numpy")
    async with open_local(limits=EVERY_LIMIT, preload=("numpy",), max_slots=1) as box:  # type: ignore[call-arg]
        result = await box.run("import sys\nprint('numpy' in sys.modules)\nimport numpy\nprint(numpy.arange(3).sum())")
    assert result.text == "True\n3\n", result.error_text


async def test_installed_packages_can_be_imported(open_local: OpenBox) -> None:
    async with open_local(limits=EVERY_LIMIT) as box:
        result = await box.run("import pytest\nprint(pytest.__name__)")
    assert result.text == "pytest\n", result.error_text


@pytest.mark.parametrize(
    ("language", "source", "text"),
    [
        ("bash", "read x; arr=(1 2 3); echo $((x + ${#arr[@]}))", "8\n"),
        ("node", "console.log(parseInt(require('fs').readFileSync(0, 'utf8')) + 3)", "8\n"),
        ("cpp", "#include <iostream>\nint main() { int x; std::cin >> x; std::cout << x + 3 << std::endl; }", "8\n"),
        ("perl", 'my $x = <STDIN>; print $x + 3, "\\n";', "8\n"),
    ],
)
async def test_languages(open_local: OpenBox, language: str, source: str, text: str) -> None:
    async with open_local(limits=Limits(timeout_s=20, compile_timeout_s=60, memory_mb=1024)) as box:
        try:
            result = await box.run(Program(source, language), stdin="5\n")
        except SandboxError as missing:
            pytest.skip(str(missing))
    assert (result.status, result.text) == ("ok", text), result.error_text


async def test_a_cancelled_run_ends_its_processes(open_local: OpenBox) -> None:
    async with open_local(limits=Limits(timeout_s=60), max_slots=1) as box:  # type: ignore[call-arg]
        await box.run("pass")
        quiet = len(descendants(os.getpid()))
        task = asyncio.ensure_future(box.run("import os\nfor _ in range(3): os.fork()\nwhile True: pass"))
        await asyncio.sleep(0.5)
        assert len(descendants(os.getpid())) >= quiet + 8
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await box.run("print('well')")).text == "well\n"
        assert len(descendants(os.getpid())) == quiet


@pytest.mark.slow
async def test_soak() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from sandbox_soak import soak

    report = await soak("local", 10_000)
    assert report["ok"], report
