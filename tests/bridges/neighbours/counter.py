"""An environment of ours, for others' clients."""


class Counter:
    """Counts up to a goal."""

    def reset(self, goal: int = 5, seed: int = 0) -> str:
        self.goal, self.count = goal, 0
        return f"count to {goal}"

    def add(self, number: int) -> str:
        """Add to the count.

        Args:
            number: how much to add
        """
        self.count += number
        return str(self.count)

    def get_reward(self) -> float:
        return float(self.count == self.goal)
