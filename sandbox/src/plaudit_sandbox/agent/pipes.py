"""The agent's ends of what it shares with a program: output pipes with a cap, and a socket that never blocks."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket
from collections.abc import Sequence

from .frames import LENGTHS, Buffer, Head, pack_head, unpack_head

MAX_MESSAGE = 16 << 20


class Capture:
    """What comes out of a pipe, up to `limit` bytes.

    Kept in a mapping that children do not inherit: one run's output must not be found in the memory of the next.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.length = 0
        self.overflowed = False
        self._buffer = mmap.mmap(-1, limit + 1)
        with contextlib.suppress(OSError):  # gVisor has no such advice
            self._buffer.madvise(mmap.MADV_DONTFORK)
        self.reading, self.writing = -1, -1

    def open(self) -> int:
        """A fresh pipe; returns its writing end, which the caller closes."""
        self.length, self.overflowed = 0, False
        self.reading, writing = os.pipe()
        os.set_blocking(self.reading, False)
        return writing

    def restart(self) -> None:
        """Forget what was read; keep the pipe."""
        self.length, self.overflowed = 0, False

    def fill(self) -> bool:
        """Read what is there; False at the end of the stream."""
        while True:
            with memoryview(self._buffer) as view, view[self.length :] as room:
                try:
                    count = os.readv(self.reading, [room])
                except BlockingIOError:
                    return True
            if not count:
                return False
            self.length += count
            if self.length > self.limit:
                self.length = self.limit
                self.overflowed = True
                return True

    def close(self) -> None:
        """Close the pipe; what was read stays."""
        if self.reading >= 0:
            os.close(self.reading)
            self.reading = -1

    def view(self) -> memoryview:
        """What was read."""
        return memoryview(self._buffer)[: self.length]

    def tail(self, length: int) -> bytes:
        """The last bytes that were read."""
        return bytes(self.view()[max(0, self.length - length) :])


class Peer:
    """Frames to and from a program. It is not trusted: it may stop in the middle, never read, or send rubbish."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)
        self._incoming = bytearray()
        self._outgoing: list[memoryview] = []

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._outgoing)

    def send(self, head: Head, parts: Sequence[Buffer] = ()) -> None:
        """Queue one frame, and send what can be sent at once."""
        views = [memoryview(part) for part in parts]
        self._outgoing += [memoryview(pack_head(head, sum(map(len, views)))), *views]
        self.flush()

    def flush(self) -> None:
        """Send what can be sent without blocking. Raises OSError if the program closed its end."""
        while self._outgoing:
            try:
                sent = self.sock.send(self._outgoing[0])
            except BlockingIOError:
                return
            if sent == len(self._outgoing[0]):
                self._outgoing.pop(0)
            else:
                self._outgoing[0] = self._outgoing[0][sent:]

    def receive(self) -> list[tuple[Head, bytes]]:
        """The whole frames that have come. Raises ValueError for rubbish and OSError at the end of the stream."""
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionResetError("the program closed its control channel")
        self._incoming += data
        frames = []
        while len(self._incoming) >= LENGTHS.size:
            head_length, body_length = LENGTHS.unpack_from(self._incoming)
            if head_length > 4096 or body_length > MAX_MESSAGE:
                raise ValueError(f"the program sent a message of {body_length} bytes; at most {MAX_MESSAGE}")
            end = LENGTHS.size + head_length + body_length
            if len(self._incoming) < end:
                break
            head = _head(bytes(self._incoming[LENGTHS.size : LENGTHS.size + head_length]))
            frames.append((head, bytes(self._incoming[LENGTHS.size + head_length : end])))
            del self._incoming[:end]
        return frames

    def close(self) -> None:
        """Close this end."""
        self.sock.close()


def _head(data: bytes) -> Head:
    try:
        return unpack_head(data)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the program sent a malformed message ({error})") from None
