"""The stand-in, on a loop and in a thread of its own, with the SDK's environment pointing at it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from standin import KEY, Cloud, serve


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


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """An account of this test's own."""
    with standing_in(Cloud()) as cloud:
        yield cloud
        assert not cloud.boxes, "sandboxes are left"
