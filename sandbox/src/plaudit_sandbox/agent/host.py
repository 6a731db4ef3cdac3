"""`import plaudit_host` inside a program: asks the caller of `run(on_call=…)`."""

from __future__ import annotations

import sys
import types

from .frames import Channel


def offer(descriptor: int) -> None:
    """Make `plaudit_host.call(data: bytes) -> bytes` importable, speaking over `descriptor`."""
    channel = Channel(descriptor, descriptor)

    def call(data: bytes) -> bytes:
        """Send `data` to whoever runs this program and return the answer."""
        channel.send({"op": "call"}, [bytes(data)])
        head, body = channel.receive()
        answer = bytes(body) if body is not None else b""
        if head["op"] != "reply":
            raise RuntimeError(answer.decode(errors="replace"))
        return answer

    module = types.ModuleType("plaudit_host", "Calls to whoever runs this program.")
    module.__dict__["call"] = call
    sys.modules["plaudit_host"] = module
