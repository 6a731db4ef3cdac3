"""Every back end that runs here by itself, under one fixture: `open_box(limits=…)` opens a sandbox of the parameter's.

Tests of e2b, which needs a cloud or its stand-in, lie in e2b/.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from plaudit_sandbox import SandboxRefused, open_sandbox, shared_sandbox
from plaudit_sandbox.testing import OpenBox

LOCAL = [pytest.param("namespaces", id="namespaces"), pytest.param("landlock", id="landlock")]
BACKENDS = [
    *LOCAL,
    pytest.param("docker", id="docker", marks=pytest.mark.docker),
]


@pytest.fixture(scope="session")
def keep_local_warm() -> Callable[[str], None]:
    """Holds the pool of a tier open for the whole session, so that no test pays for a nursery. Skips where refused."""
    held: dict[str, SandboxRefused | None] = {}

    def warm(tier: str) -> None:
        if tier not in held:
            held[tier] = None
            try:
                # In a thread, because the fixture that asks may run on a loop of its own.
                box = shared_sandbox("local", tier=tier)
                with ThreadPoolExecutor(1) as executor:
                    executor.submit(lambda: asyncio.run(box.start())).result()  # type: ignore[attr-defined]
            except SandboxRefused as refused:
                held[tier] = refused
        if held[tier] is not None:
            pytest.skip(f"this machine has no {tier} tier: {held[tier]}")

    return warm


@pytest.fixture(params=LOCAL)
def open_local(request: pytest.FixtureRequest, keep_local_warm: Callable[[str], None]) -> OpenBox:
    """A sandbox of this machine, in each tier that it has."""
    keep_local_warm(request.param)
    return partial(open_sandbox, "local", tier=request.param)


@pytest.fixture(params=BACKENDS)
def open_box(request: pytest.FixtureRequest, keep_local_warm: Callable[[str], None]) -> Iterator[OpenBox]:
    """A sandbox of each back end; `open_docker` is the fixture of that one."""
    if request.param in ("namespaces", "landlock"):
        keep_local_warm(request.param)
        yield partial(open_sandbox, "local", tier=request.param)
        return
    try:
        opener = request.getfixturevalue(f"open_{request.param}")
    except pytest.FixtureLookupError:
        pytest.skip(f"no fixture open_{request.param} here")
    yield opener
