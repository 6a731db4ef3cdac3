"""The agent's ends of what it shares with a program: output pipes with a cap, and a socket that never blocks."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import socket

from .frames import LENGTHS, Head, pack_head, unpack_head

MAX_MESSAGE = 16 << 20
_MAX_HEAD = 4096


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
    """Frames to and from a program. It is not trusted: it may stop in the middle, never read, or send rubbish.

    What passes lies in mappings of its own, which are gone when it is closed, and not in the agent's heap.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)
        self._incoming = mmap.mmap(-1, LENGTHS.size + _MAX_HEAD + MAX_MESSAGE)
        self._length = self._taken = 0
        self._outgoing: list[memoryview] = []
        self._owned: list[mmap.mmap] = []

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits to be sent."""
        return bool(self._outgoing)

    def send(self, head: Head, body: mmap.mmap | None) -> None:
        """Queue one frame, and send what can be sent at once. Closes `body` when it is through with it."""
        self._outgoing.append(memoryview(pack_head(head, len(body) if body is not None else 0)))
        if body is not None:
            self._outgoing.append(memoryview(body))
            self._owned.append(body)
        self.flush()

    def flush(self) -> None:
        """Send what can be sent without blocking. Raises OSError if the program closed its end."""
        while self._outgoing:
            try:
                sent = self.sock.send(self._outgoing[0])
            except BlockingIOError:
                return
            self._outgoing[0] = self._outgoing[0][sent:]
            if not len(self._outgoing[0]):
                del self._outgoing[0]
        self._release()

    def fill(self) -> None:
        """Read what has come. Raises OSError at the end of the stream."""
        if self._taken:
            self._incoming.move(0, self._taken, self._length - self._taken)
            self._length, self._taken = self._length - self._taken, 0
        with memoryview(self._incoming) as view, view[self._length :] as room:
            try:
                count = self.sock.recv_into(room)
            except BlockingIOError:
                return
        if not count:
            raise ConnectionResetError("the program closed its control channel")
        self._length += count

    def take(self) -> tuple[Head, memoryview] | None:
        """The next whole frame of those that were read; its body is valid until the next `fill`.

        Raises ValueError for rubbish.
        """
        if self._length - self._taken < LENGTHS.size:
            return None
        head_length, body_length = LENGTHS.unpack_from(self._incoming, self._taken)
        if head_length > _MAX_HEAD or body_length > MAX_MESSAGE:
            raise ValueError(f"the program sent a message of {body_length} bytes; at most {MAX_MESSAGE}")
        head_at = self._taken + LENGTHS.size
        body_at = head_at + head_length
        if self._length < body_at + body_length:
            return None
        head = _head(self._incoming[head_at:body_at])
        self._taken = body_at + body_length
        return head, memoryview(self._incoming)[body_at : self._taken]

    def close(self) -> None:
        """Close this end, and drop all that was not sent or read."""
        self.sock.close()
        self._outgoing.clear()
        self._release()
        with contextlib.suppress(BufferError):  # a frame is still looked at; it goes with the last view
            self._incoming.close()

    def _release(self) -> None:
        while self._owned:
            self._owned.pop().close()


def _head(data: bytes) -> Head:
    try:
        return unpack_head(data)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"the program sent a malformed message ({error})") from None
