"""An environment: one instance a rollout, whose public methods are the tools that the model may call.

In a run file: `[[environment]]` with `name = "./environment.py:Shelf"`. Type hints and the docstring's `Args:` are what
the model reads of a tool.
"""

from __future__ import annotations

import random

WORDS = ("apple", "bread", "cheese", "dates", "eggs", "figs")


class Shelf:
    """Find out how much a thing costs by looking at the shelf, then say it."""

    tools = ("look", "answer")

    def reset(self, seed: int = 0, **row: object) -> str:
        """Begin again; the same seed, which a group shares, gives the same shelf."""
        draw = random.Random(seed)
        self._prices = {word: draw.randint(1, 99) for word in WORDS}
        self._wanted, self._said = draw.choice(WORDS), None
        return f"What does one piece of {self._wanted} cost? Look, then answer."

    def look(self, word: str) -> str:
        """Look up the price of one thing.

        Args:
            word: The thing, in lower case.

        Returns:
            Its price, or what there is.
        """
        if word not in self._prices:
            return f"There is no {word}. There is: {', '.join(WORDS)}."
        return f"{word}: {self._prices[word]}"

    def answer(self, price: int) -> str:
        """Give the answer. The last one counts.

        Args:
            price: The price, a whole number.

        Returns:
            That it was taken.
        """
        self._said = price
        return "The answer was taken."

    def get_reward(self) -> float:
        """1 for the right price."""
        return float(self._said == self._prices[self._wanted])

    def close(self) -> None:
        """Nothing is held open."""
