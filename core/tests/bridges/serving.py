"""An aiohttp application on a thread of its own, for clients that run elsewhere."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager


@contextmanager
def served(app):
    """The address of an application while it runs on loopback."""
    from aiohttp import web

    loop, ready, address = asyncio.new_event_loop(), threading.Event(), []

    async def start():
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        return runner

    def run():
        asyncio.set_event_loop(loop)
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
