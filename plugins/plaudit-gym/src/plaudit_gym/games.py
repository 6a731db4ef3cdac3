"""Two small games: guess a number, and walk through a grid."""

from __future__ import annotations

import random
from typing import Literal

Direction = Literal["up", "down", "left", "right"]
_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


class GuessNumber:
    """A number between two bounds is to be found; the reward is 1 when it was guessed in time.

    `low`, `high`: the bounds, both included. `guesses`: how many there are; None = as many as halving needs. A row may
    have `secret`; without one it follows from `seed`, which a group shares.
    """

    def __init__(self, *, low: int = 1, high: int = 100, guesses: int | None = None) -> None:
        if low >= high:
            raise ValueError(f"low is {low} and high {high}; low must be smaller")
        self._low, self._high = low, high
        self._allowed = (high - low + 1).bit_length() if guesses is None else guesses
        self._secret, self._left, self._found = low, 0, False

    def reset(self, secret: int | None = None, seed: int | None = None) -> str:
        """Think of a number."""
        chosen = random.Random(seed).randint(self._low, self._high) if secret is None else int(secret)
        if not self._low <= chosen <= self._high:
            raise ValueError(f"secret is {chosen}; it must lie between {self._low} and {self._high}")
        self._secret, self._left, self._found = chosen, self._allowed, False
        return f"I think of a whole number between {self._low} and {self._high}. Find it in {self._left} guesses."

    def guess(self, number: int) -> str:
        """Guess the number.

        Args:
            number: The guess.

        Returns:
            Whether it is right, or the number is higher or lower.
        """
        if self._found or self._left <= 0:
            return "The game is over."
        try:
            guessed = int(str(number))
        except ValueError:
            return f"{number!r:.40} is no whole number. {self._left} guesses left."
        self._left -= 1
        if guessed == self._secret:
            self._found = True
            return "Right!"
        hint = "higher" if guessed < self._secret else "lower"
        rest = f"{self._left} guesses left." if self._left else f"No guess is left; it was {self._secret}."
        return f"It is {hint}. {rest}"

    def get_reward(self) -> float:
        """1 when the number was found."""
        return float(self._found)


class GridWalk:
    """A walker `@` must reach the goal `G` past walls `#`; the reward is 1 at the goal, else the share of the way made.

    `size`: of the square. `walls`: the share of cells that are walls; there is always a way. A row may have `grid`, a
    list of lines with one `@` and one `G`; without one it follows from `seed`, which a group shares. `slack`: moves
    allowed beyond twice the shortest way.
    """

    def __init__(self, *, size: int = 5, walls: float = 0.25, slack: int = 2) -> None:
        if size < 2 or not 0 <= walls < 1:
            raise ValueError(f"size {size}, walls {walls}: size must be at least 2 and walls from 0 to below 1")
        self._size, self._walls, self._slack = size, walls, slack
        self._lines: list[str] = []
        self._distance: dict[tuple[int, int], int] = {}
        self._at, self._start, self._left = (0, 0), 0, 0

    def reset(self, grid: list[str] | None = None, seed: int | None = None) -> str:
        """Put the walker at its start."""
        self._lines = list(grid) if grid else _grid(random.Random(seed), self._size, self._walls)
        joined = "".join(self._lines)
        if joined.count("@") != 1 or joined.count("G") != 1 or len({len(line) for line in self._lines}) != 1:
            raise ValueError("grid must be lines of one length with one @ and one G")
        self._at = _find(self._lines, "@")
        self._distance = _distances(self._lines, _find(self._lines, "G"))
        if self._at not in self._distance:
            raise ValueError("grid has no way from @ to G")
        self._start = self._distance[self._at]
        self._left = 2 * self._start + self._slack
        return f"Walk from @ to G; # are walls. You have {self._left} moves.\n{self._picture()}"

    def move(self, direction: Direction) -> str:
        """Walk one cell.

        Args:
            direction: Where to.

        Returns:
            The grid afterwards.
        """
        if direction not in _STEPS:
            return f"There is no direction {direction!r}; there are {', '.join(_STEPS)}."
        if self._left <= 0 or self._distance[self._at] == 0:
            return "The walk is over."
        self._left -= 1
        row, column = (a + b for a, b in zip(self._at, _STEPS[direction], strict=True))
        if (row, column) not in self._distance:
            return f"There is no way {direction}. {self._left} moves left."
        self._at = (row, column)
        if self._distance[self._at] == 0:
            return "You are there!"
        return f"{self._left} moves left.\n{self._picture()}"

    def get_reward(self) -> float:
        """1 at the goal, else how much nearer the walker is, at most a half."""
        distance = self._distance[self._at]
        return 1.0 if distance == 0 else max(0.0, 0.5 * (1 - distance / self._start))

    def _picture(self) -> str:
        lines = [list(line.replace("@", ".")) for line in self._lines]
        lines[self._at[0]][self._at[1]] = "@"
        return "\n".join("".join(line) for line in lines)


def _find(lines: list[str], mark: str) -> tuple[int, int]:
    return next((row, line.index(mark)) for row, line in enumerate(lines) if mark in line)


def _distances(lines: list[str], goal: tuple[int, int]) -> dict[tuple[int, int], int]:
    """Moves to the goal from every cell that can reach it."""
    found, edge = {goal: 0}, [goal]
    while edge:
        reached = []
        for row, column in edge:
            for down, right in _STEPS.values():
                cell = (row + down, column + right)
                inside = 0 <= cell[0] < len(lines) and 0 <= cell[1] < len(lines[0])
                if inside and cell not in found and lines[cell[0]][cell[1]] != "#":
                    found[cell] = found[row, column] + 1
                    reached.append(cell)
        edge = reached
    return found


def _grid(rng: random.Random, size: int, walls: float) -> list[str]:
    while True:
        cells = [["#" if rng.random() < walls else "." for _ in range(size)] for _ in range(size)]
        start, goal = rng.sample([(row, column) for row in range(size) for column in range(size)], 2)
        cells[start[0]][start[1]], cells[goal[0]][goal[1]] = "@", "G"
        lines = ["".join(line) for line in cells]
        if start in _distances(lines, goal):
            return lines
