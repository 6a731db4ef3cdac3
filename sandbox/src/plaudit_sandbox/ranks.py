"""How the ranks of a distributed run share what there is only once."""

from __future__ import annotations

import os


def share_of_machine(total: int) -> int:
    """This process's share, at least 1, of something that the ranks of one machine share (LOCAL_WORLD_SIZE)."""
    return max(1, total // _size("LOCAL_WORLD_SIZE"))


def share_of_run(total: int) -> int:
    """This process's share, at least 1, of something that all ranks of a run share (WORLD_SIZE)."""
    return max(1, total // _size("WORLD_SIZE"))


def _size(variable: str) -> int:
    text = os.environ.get(variable, "")
    return int(text) if text.isdigit() and int(text) > 0 else 1
