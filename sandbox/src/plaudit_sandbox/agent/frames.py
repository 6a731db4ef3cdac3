"""Frames: how the agent and its client talk.

A frame is two big-endian 32-bit lengths, a JSON head and a body of bytes. Client to agent: `run`, `open` (a session),
`cell` (a run in it), `end`, `cancel`, `reply`. Agent to client: `hello`, `result`, `call`, `broken`.
"""

from __future__ import annotations

import binascii
import ctypes
import json
import mmap
import os
import struct
from collections.abc import Sequence
from typing import Any

LENGTHS = struct.Struct(">II")
MAX_HEAD = 1 << 20
MAX_BODY = 1 << 30
_LINE_BYTES = 48 << 10
Buffer = bytes | memoryview | mmap.mmap
Head = dict[str, Any]


class Closed(Exception):
    """The other end is gone."""


def pack_head(head: Head, body_length: int) -> bytes:
    """The bytes of a frame up to its body."""
    text = json.dumps(head, separators=(",", ":")).encode()
    return LENGTHS.pack(len(text), body_length) + text


def unpack_lengths(data: bytes | bytearray) -> tuple[int, int]:
    """(head length, body length). Raises ValueError where they cannot be a frame's."""
    head, body = LENGTHS.unpack(data)
    if head > MAX_HEAD or body > MAX_BODY:
        raise ValueError(f"frame of {head} + {body} bytes: more than {MAX_HEAD} + {MAX_BODY}")
    return head, body


def unpack_head(data: bytes | bytearray) -> Head:
    """The head as a dict. Raises ValueError if it is anything else."""
    head = json.loads(data)
    if not isinstance(head, dict) or not isinstance(head.get("op"), str):
        raise ValueError("frame head: expected an object with a string `op`")
    return head


class Channel:
    """Frames over a pair of descriptors, blocking.

    Bodies are read into an anonymous mapping, which the caller closes: what one run was sent must not be found in the
    memory of the next.
    """

    def __init__(self, incoming: int, outgoing: int) -> None:
        self.incoming = incoming
        self.outgoing = outgoing

    def receive(self) -> tuple[Head, mmap.mmap | None]:
        """The next frame; body None where it is empty. Raises Closed at the end of the stream."""
        head_length, body_length = unpack_lengths(self._read(LENGTHS.size))
        head = unpack_head(self._read(head_length))
        if not body_length:
            return head, None
        body = mmap.mmap(-1, body_length)
        self._read_into(memoryview(body))
        return head, body

    def send(self, head: Head, parts: Sequence[Buffer] = ()) -> None:
        """Write one frame. Raises Closed if the other end is gone."""
        views = [memoryview(part) for part in parts]
        pending = [memoryview(pack_head(head, sum(map(len, views)))), *views]
        while pending:
            try:
                written = os.writev(self.outgoing, pending[:64])
            except (BrokenPipeError, ConnectionResetError) as gone:
                raise Closed from gone
            while pending and written >= len(pending[0]):
                written -= len(pending.pop(0))
            if written:
                pending[0] = pending[0][written:]

    def _read(self, length: int) -> bytes:
        data = bytearray(length)
        self._read_into(memoryview(data))
        return bytes(data)

    def _read_into(self, view: memoryview) -> None:
        with view:
            done = 0
            while done < len(view):
                with view[done:] as rest:
                    count = self._fill(rest)
                if not count:
                    raise Closed
                done += count

    def _fill(self, view: memoryview) -> int:
        try:
            return os.readv(self.incoming, [view])
        except ConnectionResetError:
            return 0


class LineChannel(Channel):
    """The same where the way back carries text only: lines, each of them base64 of some bytes of the stream."""

    def send(self, head: Head, parts: Sequence[Buffer] = ()) -> None:
        """Write one frame. Raises Closed if the other end is gone."""
        views = [memoryview(part) for part in parts]
        for view in [memoryview(pack_head(head, sum(map(len, views)))), *views]:
            for start in range(0, len(view), _LINE_BYTES):
                line = binascii.b2a_base64(view[start : start + _LINE_BYTES])
                try:
                    self._write(memoryview(line))
                finally:
                    # Encoded output of this run would else be found in the memory of the next.
                    ctypes.memset(id(line) + bytes.__basicsize__ - 1, 0, len(line))

    def _write(self, line: memoryview) -> None:
        while line:
            try:
                line = line[os.write(self.outgoing, line) :]
            except (BrokenPipeError, ConnectionResetError) as gone:
                raise Closed from gone
