"""Length-prefixed messages over a stream socket, as parent and worker exchange them."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable

_HEADER = struct.Struct("!Q")
MESSAGE_LIMIT = 512 * 2**20
SLICE_S = 0.1
_CHUNK = 1 << 20


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """The deadline passed, or the wait was given up."""


def send_blocking(channel: socket.socket, data: bytes) -> None:
    """Send one message from the worker's side."""
    channel.sendall(_HEADER.pack(len(data)) + data)


def receive_blocking(channel: socket.socket) -> bytes | None:
    """The next message on the worker's side; None when the parent is gone."""
    header = _receive_exactly(channel, _HEADER.size)
    if header is None:
        return None
    return _receive_exactly(channel, _HEADER.unpack(header)[0])


def _receive_exactly(channel: socket.socket, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = channel.recv(min(size - len(parts), _CHUNK))
        if not part:
            return None
        parts += part
    return bytes(parts)


class Channel:
    """The parent's side: never blocks past a deadline, and notices the death of the worker by `pidfd`."""

    def __init__(self, channel: socket.socket, pidfd: int | None = None) -> None:
        channel.setblocking(False)
        self._socket = channel
        self.pidfd = pidfd

    def exchange(self, data: bytes, *, deadline: float, given_up: Callable[[], bool]) -> bytes:
        """Send a message and return the answer.

        Raises ChannelTimeout after `deadline` (monotonic seconds) or when `given_up()`, ChannelClosed when it died.
        """
        waiting = memoryview(_HEADER.pack(len(data)) + data)
        while waiting:
            self._wait(select.POLLOUT, deadline, given_up)
            try:
                waiting = waiting[self._socket.send(waiting[:_CHUNK]) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise ChannelClosed(str(error)) from error
        return self.receive(deadline=deadline, given_up=given_up)

    def receive(self, *, deadline: float, given_up: Callable[[], bool]) -> bytes:
        """The next message. Raises as `exchange`."""
        (size,) = _HEADER.unpack(self._exactly(_HEADER.size, deadline, given_up))
        if size > MESSAGE_LIMIT:
            raise ChannelClosed(f"an answer of {size >> 20} MB, more than {MESSAGE_LIMIT >> 20} MB")
        return self._exactly(size, deadline, given_up)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _exactly(self, size: int, deadline: float, given_up: Callable[[], bool]) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait(select.POLLIN, deadline, given_up)
            try:
                part = self._socket.recv(min(size - len(parts), _CHUNK))
            except BlockingIOError:
                continue
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not part:
                raise ChannelClosed("it ended")
            parts += part
        return bytes(parts)

    def _wait(self, event: int, deadline: float, given_up: Callable[[], bool]) -> None:
        poll = select.poll()
        poll.register(self._socket, event)
        if self.pidfd is not None:
            poll.register(self.pidfd, select.POLLIN)
        while True:
            if given_up():
                raise ChannelTimeout("given up")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ChannelTimeout("deadline")
            ready = dict(poll.poll(max(min(left, SLICE_S) * 1000, 1)))
            if self._socket.fileno() in ready:
                return
            if ready:
                raise ChannelClosed("its process ended")
