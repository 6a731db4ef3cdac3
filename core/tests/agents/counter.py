"""An environment that counts, and a script that plays it."""

from __future__ import annotations

from typing import ClassVar

from scripted import call, turns_of


class Counter:
    """Counts up to a target that it draws itself."""

    made: ClassVar[list] = []

    def __init__(self):
        self.closed = 0
        self.resets: list[dict] = []
        type(self).made.append(self)

    def reset(self, **row):
        self.resets.append(row)
        self.count = 0
        return f"Count to {3}."

    def increment(self, step: int) -> int:
        """Add to the counter.

        Args:
            step: How much.

        Returns:
            The counter.
        """
        self.count += step
        return self.count

    def get_reward(self) -> float:
        return float(self.count == 3)

    def close(self):
        self.closed += 1

    def _hidden(self):
        pass

    @property
    def expensive(self):
        raise AssertionError("a property was read")


def count_up(text, index):
    """Rollout 0 of each prompt counts to 3, the others to 1."""
    turns = turns_of(text)
    return "done" if turns == (3 if index % 4 == 0 else 1) else call("increment", step=1)
