"""The account: its limits, its key, and what is asked of it."""

from __future__ import annotations

import asyncio
import logging

import pytest
from plaudit_sandbox import (
    InfrastructureFailure,
    Limits,
    SandboxError,
    SandboxRefused,
    open_sandbox,
)
from plaudit_sandbox.e2b import E2BBackend
from standin import KEY, Cloud
from standin_use import ONE, until


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
