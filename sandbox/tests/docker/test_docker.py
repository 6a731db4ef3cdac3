"""The docker back end as a user meets it: hardening, ends, recycling, failures told apart, refusals."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from plaudit_sandbox import InfrastructureFailure, Limits, SandboxError, SandboxRefused, open_sandbox, shared_sandbox
from plaudit_sandbox.opening import make_backend

pytest.importorskip("docker")
from plaudit_sandbox.docker import containers
from plaudit_sandbox.docker.connection import connect

pytestmark = pytest.mark.docker
Options = dict[str, Any]


@pytest.fixture(scope="module")
def client(docker_options: Options) -> Iterator[Any]:
    made = connect(docker_options.get("base_url"))
    yield made
    made.close()


def ours(client: Any, pid: int | None = None) -> list[dict[str, Any]]:
    """Containers of a process, in any state."""
    found = client.api.containers(all=True, filters={"label": containers.OWNER})
    return [each for each in found if each["Labels"][containers.OWNER].startswith(f"{pid or os.getpid()}.")]


async def test_containers_are_hardened(docker_options: Options, client: Any) -> None:
    before = {each["Id"] for each in ours(client)}
    limits = Limits(memory_mb=200, processes=20, disk_mb=30)
    async with open_sandbox("docker", limits=limits, max_slots=1, cpus=0.5, **docker_options) as box:
        await box.run("pass")
        (identity,) = {each["Id"] for each in ours(client)} - before
        found = client.api.inspect_container(identity)
    host = found["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["PidsLimit"] == 21
    assert host["Memory"] == host["MemorySwap"] == 248 << 20
    assert host["NanoCpus"] == 500_000_000
    assert host["Tmpfs"].keys() == {"/tmp"}
    assert "size=30m" in host["Tmpfs"]["/tmp"]
    assert host["ShmSize"] <= 16 << 20
    assert not host["Binds"]
    assert not host["Privileged"]
    assert host["LogConfig"]["Type"] == "none"
    assert int(found["Config"]["User"].split(":")[0]) >= 10_000


async def test_a_container_serves_so_many_runs(docker_options: Options) -> None:
    async with open_sandbox("docker", max_slots=1, recycle_after=2, **docker_options) as box:
        users = [(await box.run("import os\nprint(os.getuid())")).text for _ in range(5)]
    assert users[0] == users[1] != users[2] == users[3] != users[4]
    assert len(set(users)) == 3


async def test_a_close_leaves_no_container(docker_options: Options, client: Any) -> None:
    before = {each["Id"] for each in ours(client)}
    async with open_sandbox(
        "docker", limits=Limits(timeout_s=30), max_slots=2, recycle_after=7, **docker_options
    ) as box:
        hanging = [asyncio.ensure_future(box.run("import os\nos.fork()\nwhile True: pass")) for _ in range(2)]
        session = await box.session().__aenter__()
        await session.run("x = 1")
        await asyncio.sleep(0.3)
        assert len({each["Id"] for each in ours(client)} - before) >= 2
    await asyncio.gather(*hanging, return_exceptions=True)
    assert {each["Id"] for each in ours(client)} <= before


async def test_a_start_that_is_cancelled_leaves_no_container(docker_options: Options, client: Any) -> None:
    backend = make_backend("docker", docker_options)
    before = {each["Id"] for each in ours(client)}
    await backend.isolation()
    for wait_s in (0.0, 0.1, 0.3):
        task = asyncio.ensure_future(backend.start(Limits()))
        await asyncio.sleep(wait_s)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or await task.result().close() is None
        assert {each["Id"] for each in ours(client)} <= before
    await backend.close()


SCRIPT = """
import asyncio, json, sys
from plaudit_sandbox import Limits, shared_sandbox
box = shared_sandbox("docker", limits=Limits(timeout_s=60), max_slots=1, **json.loads(sys.argv[1]))
async def main():
    print((await box.run("print('warm')")).text, end="", flush=True)
    if sys.argv[2] == "hang":
        await box.run("import os\\nos.fork()\\nwhile True: pass")
asyncio.run(main())
"""


@pytest.mark.parametrize("ends", ["by itself", "hang"])
def test_nothing_outlives_its_process(docker_options: Options, client: Any, ends: str) -> None:
    """ "hang": killed while a program runs; "by itself": a sandbox for life, which nobody closes."""
    import json

    command = [sys.executable, "-c", SCRIPT, json.dumps(docker_options), ends]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "warm\n"
    if ends == "hang":
        time.sleep(0.5)
        assert len(ours(client, process.pid)) == 1
        process.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors
    deadline = time.monotonic() + 30
    while ours(client, process.pid):
        assert time.monotonic() < deadline, ours(client, process.pid)
        time.sleep(0.1)


def test_containers_of_dead_processes_are_removed(docker_options: Options, client: Any) -> None:
    def made(machine: str, owner: str) -> str:
        labels = {containers.MACHINE: machine, containers.OWNER: owner}
        return str(client.containers.create(docker_options["image"], ["true"], labels=labels).id)

    here, alive = containers._machine(), f"{os.getpid()}.{containers._began(os.getpid())}"
    dead, reused = made(here, "4194304.1"), made(here, f"{os.getpid()}.1")
    living, elsewhere = made(here, alive), made("another-machine", "4194304.1")
    try:
        containers.reap(client)
        left = {each["Id"] for each in client.api.containers(all=True)}
        assert {dead, reused} & left == set()
        assert {living, elsewhere} <= left
    finally:
        for identity in (living, elsewhere):
            containers.remove(client, identity)


async def test_a_container_that_is_killed_is_the_infrastructures_failure(docker_options: Options, client: Any) -> None:
    async def killed(retries: int) -> Any:
        before = {each["Id"] for each in ours(client)}
        async with open_sandbox(
            "docker", retries=retries, max_slots=1, recycle_after=900 + retries, **docker_options
        ) as box:
            await box.run("pass")
            (identity,) = {each["Id"] for each in ours(client)} - before
            task = asyncio.ensure_future(box.run("import time\ntime.sleep(1)\nprint('done')"))
            await asyncio.sleep(0.3)
            client.api.kill(identity)
            return await task

    assert (await killed(1)).text == "done\n"
    with pytest.raises(InfrastructureFailure, match="ended from outside"):
        await killed(0)


async def test_memory_of_the_agent_too(docker_options: Options) -> None:
    """A program that leaves the kernel nothing to take but the agent is over its memory, not the infrastructure's."""
    fill = (
        "import os\nfor i in range(99):\n    with open(f'f{i}', 'wb') as f:\n"
        "        for _ in range(8): f.write(bytes(1 << 20)); f.flush()\n"
    )
    limits = Limits(memory_mb=64, disk_mb=800, timeout_s=20)
    async with open_sandbox("docker", limits=limits, max_slots=1, **docker_options) as box:
        result = await box.run(fill)
        assert result.status == "memory", result
        assert (await box.run("print('well')")).text == "well\n"


async def test_memory_is_told_from_other_kills(docker_options: Options) -> None:
    hold = "hold = []\nwhile True: hold.append(bytes([1]) * (1 << 20))"
    forks = f"import os\nfor _ in range(3): os.fork()\n{hold}"
    async with open_sandbox("docker", limits=Limits(memory_mb=128), **docker_options) as box:
        assert (await box.run(hold)).status == "memory"
        assert (await box.run(forks)).status == "memory"
        assert (await box.run("import os\nos.kill(os.getpid(), 9)")).status == "killed"


async def test_volumes_of_the_image_cannot_be_written(docker_options: Options, client: Any) -> None:
    made = client.containers.create(docker_options["image"], ["true"])
    client.api.commit(made.id, "plaudit-test-volume", "1", changes='VOLUME ["/data"]')
    made.remove(v=True)
    try:
        options = {**docker_options, "image": "plaudit-test-volume:1"}
        async with open_sandbox("docker", max_slots=1, **options) as box:
            result = await box.run("open('/data/x', 'w')")
        assert "Read-only file system" in result.error_text
        assert not client.volumes.list()
    finally:
        client.images.remove("plaudit-test-volume:1")


async def test_preloaded_modules_are_there(docker_options: Options) -> None:
    async with open_sandbox("docker", max_slots=1, preload=("decimal",), **docker_options) as box:
        assert (await box.run("import sys\nprint('decimal' in sys.modules)")).text == "True\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runtime": "no-such-runtime"}, "no-such-runtime"),
        ({"python": "no-such-python"}, "no-such-python"),
        ({"preload": ("no_such_module",)}, "No module named 'no_such_module'"),
        ({"cpus": 4096.0}, "(?i)cpus"),
    ],
)
async def test_refusals(docker_options: Options, options: Options, message: str) -> None:
    with pytest.raises(SandboxRefused, match=message):
        async with open_sandbox("docker", max_slots=1, **docker_options, **options):
            pass


async def test_a_shared_sandbox_serves_many_loops(docker_options: Options) -> None:
    box = shared_sandbox("docker", max_slots=2, **docker_options)
    results = await asyncio.gather(*(box.run(f"print({i})") for i in range(20)))
    assert [result.text for result in results] == [f"{i}\n" for i in range(20)]
    await box.close()
    with pytest.raises(SandboxError, match="closed"):
        await box.run("pass")
