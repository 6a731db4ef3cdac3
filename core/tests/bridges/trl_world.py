"""Tools, environments and rewards for the tests of `engine = "trl"`, and a policy that says what it is told to."""

from __future__ import annotations

import json
import re
import time

from plaudit import Verdict, verifier


def double(number: int) -> int:
    """Twice a number.

    Args:
        number: what to double
    """
    return 2 * number


async def triple(number: int) -> str:
    """Three times a number.

    Args:
        number: what to triple
    """
    if number > 1000:
        raise ValueError("too large to triple")
    return f"it is {3 * number}"


class Counter:
    """Counts up to a goal; `fast` is no tool."""

    tools = ("add", "look")
    alive, seeds, began = 0, [], []

    def __init__(self):
        self.count = 0
        Counter.alive += 1

    async def reset(self, goal: int, seed: int, **more) -> str:
        Counter.seeds.append(seed)
        Counter.began.append(more)
        self.goal, self.count = goal, 0
        if goal < 0:
            raise RuntimeError("no such goal")
        return f"goal {goal}"

    def add(self, number: int) -> str:
        """Add to the count.

        Args:
            number: how much
        """
        if number > 100:
            raise ValueError("too much at once")
        self.count += number
        return str(self.count)

    async def look(self) -> str:
        """Look at the count."""
        return f"it is {self.count}"

    def fast(self, number: int) -> str:
        return "never"

    def get_reward(self) -> float:
        return float(self.count == self.goal)

    def close(self) -> None:
        Counter.alive -= 1


class Quiet:
    """An environment without tools or reward."""

    def reset(self, **row):
        self.row = row


class Slow(Counter):
    """Its tool never ends."""

    tools = ("wait",)

    def wait(self) -> str:
        """Wait."""
        time.sleep(5)
        return "done"


@verifier
def says(completion, reference):
    """Whether the last message is the reference; no opinion on an empty one."""
    if not completion:
        return Verdict.abstain("nothing was said")
    return Verdict(float(completion == str(reference)), extracted=completion)


def messages(completions, environments=None, **columns):
    """How many messages a completion has, and what environment it had."""
    held = environments or [None] * len(completions)
    assert all(one is None or hasattr(one, "reset") for one in held)
    assert "plaudit_row" not in columns
    return [float(len(one)) for one in completions]


def kinds(completions, extra, log_extra, log_metric, **columns):
    """Logs the type of a column's value as this engine has it."""
    log_extra("kind", [type(value).__name__ for value in extra])
    log_metric("keys", sum(len(value) for value in extra) / len(extra))
    return [float("b" in value) for value in extra]


def broken_on_odd(completions, number, **columns):
    """Fails where a batch holds an odd number."""
    if any(one % 2 for one in number):
        raise RuntimeError("odd")
    return [1.0] * len(completions)


def calls(*uses):
    """A turn that makes these calls."""
    return "".join(
        f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>" for name, arguments in uses
    )


class Script:
    """A policy that says `dialogues[row]` turn by turn, where the prompt has the words "row N."."""

    def __init__(self, tokenizer, dialogues):
        self.tokenizer, self.dialogues = tokenizer, dialogues

    def ids(self, prompt_ids):
        """The next turn: the prompt shows how many there have been."""
        text = self.tokenizer.decode(list(prompt_ids))
        said = self.dialogues[int(re.search(r"row (\d+)\.", text)[1])]
        turn = text.count("[assistant]") - 1
        return self.tokenizer(said[min(turn, len(said) - 1)] + self.tokenizer.eos_token)["input_ids"]

    def install(self, monkeypatch):
        """In place of this engine's generation and TRL's."""
        from plaudit.rollout.protocol import Generated
        from plaudit.rollout.transformers_generator import TransformersGenerator
        from trl import GRPOTrainer

        def ours(generator, requests, sampling):
            for request in requests:
                ids = tuple(self.ids(request.prompt_ids))
                yield Generated(request.index, ids, (0.0,) * len(ids), "stop")

        def theirs(trainer, prompt_ids, *args, **kwargs):
            return [self.ids(ids) for ids in prompt_ids], None

        monkeypatch.setattr(TransformersGenerator, "generate", ours)
        monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", theirs)
