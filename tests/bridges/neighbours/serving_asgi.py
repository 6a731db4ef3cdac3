"""An ASGI application on a thread of its own, for a client of ours."""

from __future__ import annotations

import threading
from contextlib import contextmanager


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
