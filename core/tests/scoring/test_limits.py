"""How many calls run at once, and how often: hung checks, concurrency, rates."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from plaudit import reward
from plaudit.scoring.spec import reward_specs

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_hung_checks_never_fill_the_pool(score):
    """8 hang in a pool of 8, then 100 easy ones arrive: they are served."""
    release = threading.Event()

    @reward(granularity="rollout", timeout_s=0.5, max_concurrency=8)
    def checks(completions):
        if completions[0].startswith("hang"):
            release.wait(30)
        return [1.0]

    try:
        table = score(checks, [f"hang {i}" for i in range(8)] + [f"easy {i}" for i in range(100)])
    finally:
        release.set()
    assert [row[0] for row in table.scores] == [None] * 8 + [1.0] * 100
    assert table.runtime["scoring/checks/timeouts"] == 8


@pytest.mark.parametrize("limits", [{"spec": 3}, {"total": 3}])
def test_concurrency_limits(limits, score):
    under_way, most, lock = 0, 0, threading.Lock()

    @reward(granularity="rollout")
    def counts(completions):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.02)
        with lock:
            under_way -= 1
        return [1.0]

    spec = replace(reward_specs(counts)[0], max_concurrency=limits.get("spec"))
    score([spec], ["x"] * 12, max_concurrency=limits.get("total", 256))
    assert most == 3


def test_rates(score):
    """Ten calls at 40 a second take 225 ms from the first to the last, less what the first one itself was late."""
    starts = []

    @reward(granularity="rollout", requests_per_s=40)
    async def asks(completions):
        starts.append(time.monotonic())
        return [1.0]

    table = score(asks, ["x"] * 10)
    assert [row[0] for row in table.scores] == [1.0] * 10
    assert max(starts) - min(starts) >= 9 / 40 * 0.6
