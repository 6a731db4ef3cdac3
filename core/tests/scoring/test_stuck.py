"""Threads, coroutines and loops that hang, block or close: each is given up alone."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from plaudit import reward
from victims import batch, expect

pytestmark = pytest.mark.usefixtures("nothing_left")


def test_a_hung_thread_is_given_up(score):
    release = threading.Event()

    @reward(granularity="rollout", timeout_s=0.3)
    def hangs(completions):
        if completions[0] == "hang":
            release.wait(30)
        return [1.0]

    try:
        expect(score(hangs, batch("hang")), "timeout")
    finally:
        release.set()


def test_a_looping_thread_is_ended(score):
    """A pure Python loop takes the exception that asks it to stop; no thread is left, which the fixture proves."""

    @reward(granularity="rollout", timeout_s=0.3)
    def loops(completions):
        while completions[0] == "loop":
            pass
        return [1.0]

    expect(score(loops, batch("loop")), "timeout")


def test_a_hung_coroutine_is_cancelled(score):
    cancelled = []

    @reward(granularity="rollout", timeout_s=0.3)
    async def hangs(completions):
        try:
            await asyncio.sleep(3600 if completions[0] == "hang" else 0)
        except asyncio.CancelledError:
            cancelled.append(completions[0])
            raise
        return [1.0]

    expect(score(hangs, batch("hang")), "timeout")
    assert cancelled == ["hang"]


def test_a_coroutine_that_will_not_be_cancelled(score):
    @reward(granularity="rollout", timeout_s=0.3)
    async def stubborn(completions):
        until = time.monotonic() + (1.0 if completions[0] == "hang" else 0)
        while time.monotonic() < until:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        return [1.0]

    expect(score(stubborn, batch("hang")), "timeout")


def test_a_coroutine_that_blocks_the_loop_pays_alone(score, caplog):
    release = threading.Event()

    @reward(granularity="rollout", timeout_s=1.5)
    async def blocks(completions):
        if completions[0] == "hang":
            await asyncio.sleep(0.1)
            release.wait(30)
        else:
            await asyncio.sleep(0.3)
        return [1.0]

    try:
        expect(score(blocks, batch("hang")), "timeout")
    finally:
        release.set()
    assert "blocked the event loop" in caplog.text


def test_a_coroutine_that_stops_the_loop(score):
    @reward(granularity="rollout")
    async def stops(completions):
        loop = asyncio.get_running_loop()
        if completions[0] == "stop":
            loop.stop()
        await asyncio.sleep(0.01)
        return [1.0]

    expect(score(stops, batch("stop")), None)


def test_a_coroutine_that_closes_the_loop(score):
    @reward(granularity="rollout")
    async def closes(completions):
        if completions[0] == "close":
            asyncio.get_running_loop().close()
        return [1.0]

    expect(score(closes, batch("close")), "RuntimeError")


def test_a_task_that_lets_system_exit_out(score):
    @reward(granularity="rollout")
    async def starts(completions):
        async def leave():
            raise SystemExit(2)

        if completions[0] == "leave":
            task = asyncio.ensure_future(leave())
            await asyncio.sleep(0.05)
            task.exception()
        return [1.0]

    expect(score(starts, batch("leave")), None)
