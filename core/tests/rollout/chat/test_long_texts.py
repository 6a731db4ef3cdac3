"""What a policy that has collapsed may write: marks without end. Reading it takes time in proportion to its length."""

from __future__ import annotations

import pytest
from plaudit.rollout.chat.reading import FORMATS, read_turn

PIECES = [
    "<tool_call>", "<tool_call>\n", "<function=f>", "<function=f><parameter=a>", "<｜tool▁call▁begin｜>", "{", "[f(",
    "<|tool_call>call:f{", "<arg_key>", "<|channel|>", "<|python_tag|>", "[TOOL_CALLS]", "word ",
]  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("read", FORMATS, ids=lambda read: read.__name__)
def test_marks_without_end_are_read(read):
    """A scan that begins anew at each of these would take hours."""
    for piece in PIECES:
        turn = read_turn(piece * (300_000 // len(piece)), read, {}, thinks=True)
        assert all(call.error for call in turn.calls)


def test_harmony_messages_behind_long_headers():
    long = "x <y " * 50_000
    text = f"{long}<|channel|>analysis<|message|>hm<|end|>{long}<|start|>assistant to=functions.f<|channel|>commentary"
    turn = read_turn(f"{text} json<|message|>{{}}<|call|>", FORMATS[2], {}, thinks=True)
    assert (turn.reasoning, [(call.name, call.error) for call in turn.calls]) == ("hm", [("f", None)])
