"""An application on a thread of its own, for a synchronous client."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager


@contextmanager
def served(app):
    """The address of an aiohttp application while it runs on loopback."""
    from aiohttp import web

    loop, ready, address = asyncio.new_event_loop(), threading.Event(), []

    def run():
        asyncio.set_event_loop(loop)
        runner = web.AppRunner(app)
        loop.run_until_complete(runner.setup())
        loop.run_until_complete(web.TCPSite(runner, "127.0.0.1", 0).start())
        address.append(f"http://127.0.0.1:{runner.addresses[0][1]}")
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield address[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


@contextmanager
def served_asgi(app):
    """The address of an ASGI application while uvicorn runs it on loopback."""
    import socket
    import time

    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
