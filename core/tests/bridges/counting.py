"""A verifier and an environment for the servers' tests."""

from __future__ import annotations

from plaudit import Verdict, verifier


@verifier
def same(completion, reference):
    if completion == "?":
        return Verdict.abstain("cannot say")
    return Verdict(float(completion == str(reference)), extracted=completion)


@verifier
def broken(completion, reference):
    raise RuntimeError("no judge today")


class Counter:
    """Counts up to a goal."""

    alive = 0

    def __init__(self):
        self.count = 0
        Counter.alive += 1

    def reset(self, goal: int, seed: int = 0) -> str:
        self.goal, self.count = goal, 0
        return f"count to {goal}"

    def add(self, number: int) -> str:
        """Add to the count.

        Args:
            number: how much to add
        """
        if number > 100:
            raise ValueError("too much at once")
        self.count += number
        return str(self.count)

    async def look(self) -> str:
        """Look at the count."""
        return f"it is {self.count}"

    def get_reward(self) -> float:
        return float(self.count == self.goal)

    def close(self) -> None:
        Counter.alive -= 1
