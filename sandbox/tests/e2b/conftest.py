"""An account of each test's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from standin import Cloud
from standin_use import standing_in


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    """The stand-in for the cloud; no sandbox may be left in it."""
    with standing_in(Cloud()) as cloud:
        yield cloud
        assert not cloud.boxes, "sandboxes are left"
