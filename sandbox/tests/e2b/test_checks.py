"""The self-check on the stand-in, one row a check; with Landlock in the sandbox's kernel, and without."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest
from plaudit_sandbox import Limits, open_sandbox
from plaudit_sandbox.agent import landlock
from plaudit_sandbox.e2b import agent
from plaudit_sandbox.testing import check_sandbox, checks
from plaudit_sandbox.testing.check import Outcome
from standin import Cloud
from standin_use import standing_in

LANES = 4
# The stand-in runs an agent beside the machine's own processes and the other sandboxes' agents, where the cloud gives
# each a virtual machine. So what only that wall holds back is reached on the stand-in wherever the machine has neither
# Landlock nor namespaces for the agent to put in its place: others' /proc, sockets, and /tmp.
NEEDS_A_WALL = {
    "proc_of_others",
    "host_files",
    "abstract_socket",
    "socket_file",
    "files_of_earlier_run",
    "escaping_children",
    "sessions_are_apart",
    "files_of_neighbour",
}
# /boot may be listed where there is no Landlock; in the cloud it is the template's.
NEEDS_LANDLOCK = {"host_files"}


def run_all() -> dict[str, Outcome]:
    """Every check, a few at a time, on one pool."""
    outcomes: dict[str, Outcome] = {}
    names = iter([check.name for check in checks()])
    open_box = partial(open_sandbox, "e2b", creates_per_s=1000.0, max_sandboxes=12)

    async def lane() -> None:
        for name in names:
            outcomes[name] = (await check_sandbox(open_box, only=[name])).outcomes[0]

    async def everything() -> None:
        async with open_box(limits=Limits()):
            await asyncio.gather(*(lane() for _ in range(LANES)))

    with standing_in(Cloud()) as cloud:
        asyncio.run(everything())
        assert not cloud.boxes
    return outcomes


@pytest.fixture(scope="module")
def with_landlock() -> dict[str, Outcome]:
    """What the checks found, the agent using all that this machine has."""
    return run_all()


@pytest.fixture(scope="module")
def without_landlock() -> Iterator[dict[str, Outcome]]:
    """The same on a kernel without Landlock, as a template's may be."""
    source = agent.agent_source
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agent, "agent_source", lambda **options: source(**{**options, "landlock": False}))
        yield run_all()


@pytest.fixture(scope="module")
def namespaces() -> bool:
    """Whether the agent gets namespaces of its own here."""
    command = "unshare --mount --ipc --net --pid --fork --kill-child --mount-proc true"
    return subprocess.run(command.split(), capture_output=True, check=False).returncode == 0


def judge(outcome: Outcome, *, walled: bool) -> None:
    """Fail or skip as that check did."""
    if outcome.name in NEEDS_A_WALL and not walled:
        pytest.skip("the stand-in isolates nothing, and this machine has nothing for the agent to isolate with")
    if outcome.state == "skipped":
        pytest.skip(outcome.detail)
    assert outcome.state == "passed", outcome.detail


@pytest.mark.parametrize("name", [check.name for check in checks()])
def test_holds(name: str, with_landlock: dict[str, Outcome], namespaces: bool) -> None:
    judge(with_landlock[name], walled=namespaces or bool(landlock.abi()))


@pytest.mark.slow
@pytest.mark.parametrize("name", [check.name for check in checks() if check.name not in NEEDS_LANDLOCK])
def test_holds_without_landlock(name: str, without_landlock: dict[str, Outcome], namespaces: bool) -> None:
    judge(without_landlock[name], walled=namespaces)
