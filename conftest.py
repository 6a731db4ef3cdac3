"""Fixtures for the tests of several distributions: a Docker engine, where the tests marked docker are asked for."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_START_TIMEOUT_S = 60


@pytest.fixture(scope="session")
def docker_options(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Options of the docker back end: an engine that answers and the minimal image, built for it.

    Where no engine answers and the tests marked docker were asked for (`-m docker` or PLAUDIT_TEST_DOCKER=1), one is
    started for the session. Otherwise skips with the reason, or fails if DOCKER_HOST names one.
    """
    pytest.importorskip("docker")
    from plaudit_sandbox.docker.connection import connect
    from plaudit_sandbox.docker.image import build_image
    from plaudit_sandbox.errors import SandboxRefused

    with contextlib.ExitStack() as held:
        base_url = None
        try:
            client = connect(None)
        except SandboxRefused as refused:
            if os.environ.get("DOCKER_HOST"):
                pytest.fail(str(refused))
            selected = request.config.getoption("markexpr", "")
            if os.environ.get("PLAUDIT_TEST_DOCKER") != "1" and ("docker" not in selected or "not docker" in selected):
                pytest.skip(str(refused))
            base_url = held.enter_context(_engine())
            client = connect(base_url)
        held.callback(client.close)
        before = {tag for image in client.images.list() for tag in image.tags}
        image = build_image(client)
        if image not in before:
            held.callback(_remove_image, client, image)
        yield {"image": image, **({"base_url": base_url} if base_url else {})}


def _remove_image(client: Any, image: str) -> None:
    """Remove an image that the session built. One that a container still uses stays; the process's end frees it."""
    from docker.errors import APIError

    with contextlib.suppress(APIError):
        client.images.remove(image)


@pytest.fixture(scope="session")
def open_docker(docker_options: dict[str, Any]) -> Any:
    """Opens a docker sandbox; one pool is held for the whole session, so that no test pays for its start."""
    from plaudit_sandbox import open_sandbox, shared_sandbox

    held: Any = shared_sandbox("docker", **docker_options)
    asyncio.run(held.start())
    yield functools.partial(open_sandbox, "docker", **docker_options)
    asyncio.run(held.close())


@contextlib.contextmanager
def _engine() -> Iterator[str]:
    """A Docker engine of this session's own, without any network of its own; its address. Skips if none can start."""
    daemon = shutil.which("dockerd")
    if daemon is None or os.geteuid() != 0:
        pytest.skip("no Docker engine answers, and starting one takes dockerd and root")
    folder = Path(tempfile.mkdtemp(prefix="plaudit-docker-"))
    base_url = f"unix://{folder}/docker.sock"
    roots = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [daemon, *roots, "--bridge=none", "--iptables=false", "-H", base_url],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        if not _answers(base_url, process):
            pytest.skip(f"the Docker engine does not start: {(folder / 'log').read_text()[-500:]}")
        yield base_url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(base_url: str, process: subprocess.Popen[bytes]) -> bool:
    from plaudit_sandbox.docker.connection import connect
    from plaudit_sandbox.errors import SandboxRefused

    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connect(base_url).close()
        except SandboxRefused:
            time.sleep(0.25)
        else:
            return True
    return False
