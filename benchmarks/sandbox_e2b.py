"""The stand-in for the E2B cloud, in a process of its own, and the plain SDK on it: one commands.run a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

STANDIN = Path(__file__).parents[1] / "sandbox" / "tests" / "e2b" / "standin.py"
OPTIONS = {"creates_per_s": 1000.0, "max_sandboxes": 16}


@contextlib.contextmanager
def standin() -> Iterator[None]:
    """Serve, with the SDK's environment pointing there. It isolates nothing: figures are of the way there and back."""
    command = [sys.executable, str(STANDIN)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    port, key = process.stdout.readline().split()
    url = f"http://127.0.0.1:{port}"
    before = dict(os.environ)
    os.environ.update({"E2B_API_URL": url, "E2B_SANDBOX_URL": url, "E2B_API_KEY": key})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        process.stdin.close()
        process.wait()


async def plain_sdk(runs: int, lanes: int) -> dict[str, Any]:
    """What an integration without an agent does: a warm sandbox a lane, `python3 -c` through commands.run."""
    from e2b import AsyncSandbox

    taken: list[float] = []

    async def lane() -> None:
        sandbox = await AsyncSandbox.create(timeout=300)
        for _ in range(runs // lanes):
            began = time.perf_counter()
            result = await sandbox.commands.run("python3 -c 'print(1)'")
            if result.stdout != "1\n":
                raise RuntimeError(result.stderr)
            taken.append((time.perf_counter() - began) * 1000)
        await sandbox.kill()

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(lanes)))
    return {"rate": len(taken) / (time.perf_counter() - began), "cpu_ms": None, "latencies": taken}
