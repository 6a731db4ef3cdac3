"""What needs no engine: options and addresses that cannot be meant."""

from __future__ import annotations

from typing import Any

import pytest
from plaudit_sandbox import SandboxError, SandboxRefused, open_sandbox

pytest.importorskip("docker")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": "unix:///nowhere/docker.sock"}, r"no Docker engine answers at unix:///nowhere.*base_url="),
        ({"base_url": "tcp://127.0.0.1:9"}, "no Docker engine answers at tcp://127.0.0.1:9"),
        ({"base_url": "nonsense://x"}, "no Docker engine answers at nonsense"),
    ],
)
async def test_no_engine(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxRefused, match=message):
        async with open_sandbox("docker", **options):
            pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpus": 0}, "cpus=0: expected a number above 0"),
        ({"recycle_after": -1}, "recycle_after=-1: expected a number above 0"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
async def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SandboxError, match=message):
        async with open_sandbox("docker", **options):
            pass
