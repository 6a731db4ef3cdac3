"""Environments with tools, the datasets that go with them, puzzles, and the tasks of reasoning-gym."""
