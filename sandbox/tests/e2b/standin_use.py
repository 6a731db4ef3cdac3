"""What the tests of e2b share: the stand-in in a thread, options for it, and waiting."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from standin import KEY, Cloud, serve

QUICK = {"creates_per_s": 1000.0}
ONE = {**QUICK, "max_sandboxes": 1, "max_sessions": 0}
SLEEPER = "import time\nprint('begun', flush=True)\ntime.sleep(60)"


@contextlib.contextmanager
def standing_in(cloud: Cloud) -> Iterator[Cloud]:
    """Serve `cloud`, and let the SDK find it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(serve(cloud), loop).result(10)
    url = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("E2B_API_URL", url)
        patch.setenv("E2B_SANDBOX_URL", url)
        patch.setenv("E2B_API_KEY", KEY)
        patch.delenv("WORLD_SIZE", raising=False)
        try:
            yield cloud
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()


async def until(happened: Callable[[], object], what: str) -> None:
    """Wait for something that must happen soon."""
    deadline = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < deadline, f"not in 30 s: {what}"
        await asyncio.sleep(0.01)
