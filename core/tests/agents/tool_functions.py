"""Tools for tests, and a run that calls them."""

from __future__ import annotations

import asyncio
import time

from scripted import Keep, chat_rows, make_trainer, turns_of


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.

    Returns:
        The sum.
    """
    return a + b


async def slow_add(a: int, b: int) -> int:
    """Add two numbers, later.

    Args:
        a: The first.
        b: The second.
    """
    await asyncio.sleep(0.1)
    return a + b


def fail(why: str) -> str:
    """Fail.

    Args:
        why: The reason.
    """
    raise ValueError(why)


def hang(seconds: float) -> str:
    """Wait.

    Args:
        seconds: How long.
    """
    time.sleep(seconds)
    return "woke"


def picture(name: str) -> list:
    """Look at something.

    Args:
        name: Of what.
    """
    return [{"type": "text", "text": f"a picture of {name}"}]


def once(text):
    """A script that makes calls in the first turn and ends in the second."""
    return lambda so_far, index: "done" if turns_of(so_far) else text(index) if callable(text) else text


def run(tmp_path, say, tools, **more):
    keep = Keep()
    trainer = make_trainer(tmp_path, say, rows=chat_rows(), reward_funcs=keep, tools=tools, **more)
    trainer.train()
    return keep.seen[0], trainer.state.log_history[0], trainer


def answers(completion):
    return [message["content"] for message in completion if message["role"] == "tool"]
