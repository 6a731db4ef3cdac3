"""Frames survive any split of the stream, over bytes and over lines, and rubbish is refused."""

from __future__ import annotations

import base64
import contextlib
import mmap
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plaudit_sandbox.agent.frames import Channel, Closed, LineChannel, pack_head
from plaudit_sandbox.agent.pipes import Capture, Peer
from plaudit_sandbox.agent.report import COMPILING, RUNNING, SETTING_UP, Report

FRAMES = st.lists(st.tuples(st.integers(), st.binary(max_size=3000)), max_size=5)


@contextlib.contextmanager
def _decoded(lines: int) -> Iterator[int]:
    """A descriptor that gives the bytes which lines of base64, read from another, stand for."""
    reading, writing = os.pipe()

    def pump() -> None:
        with open(lines, "rb", closefd=False) as source, open(writing, "wb", buffering=0) as sink:
            for line in source:
                sink.write(base64.b64decode(line, validate=False))

    thread = threading.Thread(target=pump)
    thread.start()
    try:
        yield reading
    finally:
        thread.join()
        os.close(reading)


@pytest.mark.parametrize("kind", [Channel, LineChannel])
@settings(max_examples=30, deadline=None)
@given(frames=FRAMES)
def test_frames_arrive_as_sent(kind: type[Channel], frames: list[tuple[int, bytes]]) -> None:
    reading, writing = os.pipe()

    def send() -> None:
        for n, body in frames:
            kind(-1, writing).send({"op": "x", "n": n}, [body])
        os.close(writing)

    thread = threading.Thread(target=send)
    thread.start()
    received = []
    with _decoded(reading) if kind is LineChannel else contextlib.nullcontext(reading) as plain:
        receiver = Channel(plain, -1)
        for _ in frames:
            head, body = receiver.receive()
            received.append((head["n"], bytes(body) if body is not None else b""))
        with pytest.raises(Closed):
            receiver.receive()
    thread.join()
    os.close(reading)
    assert received == frames


def test_a_line_leaves_nothing_in_memory_and_hurts_no_other_bytes() -> None:
    reading, writing = os.pipe()
    body = os.urandom(30_000)
    LineChannel(-1, writing).send({"op": "x"}, [body, b"", b"\n"])
    os.close(writing)
    with _decoded(reading) as plain:
        assert bytes(Channel(plain, -1).receive()[1] or b"") == body + b"\n"
    os.close(reading)
    assert (b"\n"[0], b"Cg==\n"[:2]) == (10, b"Cg")
    assert body != bytes(len(body))


def test_a_large_body_crosses_a_small_socket() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        body = os.urandom(3 << 20)
        thread = threading.Thread(
            target=lambda: Channel(-1, ours.fileno()).send({"op": "run"}, [body[:7], memoryview(body)[7:]])
        )
        thread.start()
        head, received = Channel(theirs.fileno(), -1).receive()
        thread.join()
    assert head == {"op": "run"}
    assert received is not None
    assert bytes(received) == body


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 8, pack_head({"op": 1}, 0), b"\0\0\0\2\0\0\0\0[]", b"\0\0\0\5\0\0\0\0nope!"],  # type: ignore[dict-item]
)
def test_rubbish_is_refused(data: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    try:
        with pytest.raises(ValueError):
            Channel(reading, -1).receive()
    finally:
        os.close(reading)


def test_a_peer_that_stops_in_the_middle_does_not_block() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        peer = Peer(ours)
        whole = pack_head({"op": "call"}, 3) + b"abc"
        theirs.sendall(whole[:5])
        peer.fill()
        assert peer.take() is None
        theirs.sendall(whole[5:] + whole + whole[:1])
        peer.fill()
        for _ in range(2):
            frame = peer.take()
            assert frame is not None
            assert (frame[0], bytes(frame[1])) == ({"op": "call"}, b"abc")
        assert peer.take() is None
        del frame
        body = mmap.mmap(-1, 4 << 20)
        peer.send({"op": "reply"}, body)
        assert peer.wants_to_write
        theirs.sendall(b"\xff" * 7)
        peer.fill()
        with pytest.raises(ValueError, match="message of"):
            peer.take()
        theirs.close()
        with pytest.raises(OSError):
            peer.fill()
        peer.close()
        assert body.closed


@pytest.mark.parametrize(
    ("written", "kept", "over"), [(0, 0, False), (99, 99, False), (100, 100, False), (101, 100, True)]
)
def test_a_capture_keeps_up_to_its_limit(written: int, kept: int, over: bool) -> None:
    capture = Capture(100)
    writing = capture.open()
    os.write(writing, b"x" * written)
    os.close(writing)
    while capture.fill() and not capture.overflowed:
        pass
    assert (capture.length, capture.overflowed, bytes(capture.view())) == (kept, over, b"x" * kept)
    capture.close()


def test_a_stage_whose_time_is_not_written_yet_has_just_begun() -> None:
    report = Report()
    assert report.stage == SETTING_UP
    report._page[0] = COMPILING
    assert report.started == pytest.approx(time.monotonic(), abs=5)
    report.enter(RUNNING)
    assert (report.stage, report.started) == (RUNNING, pytest.approx(time.monotonic(), abs=5))
    report.fail(ValueError("é" * 5000))
    assert report.error.startswith("ValueError: éé")
    report.reset()
    assert (report.stage, report.error) == (SETTING_UP, "")
    report.close()
