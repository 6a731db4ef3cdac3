"""The engine's stream format, taken apart whatever the pieces in which it comes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("docker")
from plaudit_sandbox.docker.transport import Demultiplexer

FRAMES = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=200)), max_size=20)


@given(FRAMES, st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_frames_are_put_together_again(frames: list[tuple[int, bytes]], pieces: list[int]) -> None:
    wire = b"".join(struct.pack(">BBBBI", stream, 0, 0, 0, len(data)) + data for stream, data in frames)
    streams, heard, position, turn = Demultiplexer(), b"", 0, 0
    while position < len(wire):
        size = pieces[turn % len(pieces)]
        heard += streams.feed(wire[position : position + size])
        position, turn = position + size, turn + 1
    assert heard == b"".join(data for stream, data in frames if stream == 1)
    assert streams.stderr == b"".join(data for stream, data in frames if stream == 2)[-2000:]
