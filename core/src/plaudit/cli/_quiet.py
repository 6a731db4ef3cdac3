"""Commands that score without a training run: the runtime's messages speak of a run, and theirs say the same."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_runtime() -> Iterator[None]:
    """Without the reward runtime's warnings inside the block; errors stay."""
    logger = logging.getLogger("plaudit.scoring")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
