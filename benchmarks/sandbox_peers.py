"""One peer of `benchmarks/sandbox.py`, run by the Python of the peer's own environment; prints one JSON line.

    PEER_PYTHON benchmarks/sandbox_peers.py llm-sandbox-bubblewrap|llm-sandbox-docker|agentbox-docker RUNS LANES [IMAGE]

Every run prints 1; anything else ends the measurement with an error. CPU is that of this process and its children, so
it is left out for docker, whose containers are no children.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure_threads(runners: list[Callable[[], str]], runs: int) -> dict[str, Any]:
    """Each lane runs its runner over and over in a thread of its own. Returns rate, CPU and latencies in ms."""
    latencies: list[float] = []

    def lane(run: Callable[[], str]) -> None:
        for _ in range(runs // len(runners)):
            began = time.perf_counter()
            text = run()
            if text.strip() != "1":
                raise RuntimeError(f"printed {text!r} instead of 1")
            latencies.append((time.perf_counter() - began) * 1000)

    for run in runners:
        run()
    before, began = cpu_s(), time.perf_counter()
    with ThreadPoolExecutor(len(runners)) as executor:
        list(executor.map(lane, runners))
    wall_s = time.perf_counter() - began
    count = len(latencies)
    return {"rate": count / wall_s, "cpu_ms": (cpu_s() - before) / count * 1000, "latencies": latencies}


def llm_sandbox(backend: str, runs: int, lanes: int, image: str | None) -> dict[str, Any]:
    """llm-sandbox: one session a lane, opened beforehand."""
    from llm_sandbox import SandboxBackend, SandboxSession

    options = {"image": image} if image else {}
    sessions = [
        SandboxSession(backend=SandboxBackend(backend), lang="python", skip_environment_setup=True, **options)
        for _ in range(lanes)
    ]
    for session in sessions:
        session.open()
    try:
        runners = [lambda session=session: session.run("print(1)").stdout for session in sessions]
        return measure_threads(runners, runs)
    finally:
        for session in sessions:
            session.close()


async def agentbox(runs: int, lanes: int, image: str | None) -> dict[str, Any]:
    """agentbox-rl: one warm container a lane, `python3 -c` by exec."""
    from agentbox import SandboxManager
    from agentbox.config import SandboxConfig

    latencies: list[float] = []
    config = SandboxConfig(image=image or "python:3.12-slim-bookworm", auto_pull=False, ensure_pytest=False)
    async with SandboxManager(config) as manager:
        boxes = [await manager.create(task_id="benchmark", run_id=str(lane)) for lane in range(lanes)]

        async def lane(box: Any, count: int) -> None:
            for _ in range(count):
                began = time.perf_counter()
                result = await manager.exec(box, ["python3", "-c", "print(1)"])
                if result.stdout.strip() != "1":
                    raise RuntimeError(f"printed {result!r} instead of 1")
                latencies.append((time.perf_counter() - began) * 1000)

        await asyncio.gather(*(lane(box, 1) for box in boxes))
        latencies.clear()
        began = time.perf_counter()
        await asyncio.gather(*(lane(box, runs // lanes) for box in boxes))
        wall_s = time.perf_counter() - began
        for box in boxes:
            await manager.destroy(box)
    return {"rate": len(latencies) / wall_s, "cpu_ms": None, "latencies": latencies}


def main() -> None:
    """Measure the peer that is named."""
    name, runs, lanes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    image = sys.argv[4] if len(sys.argv) > 4 else None
    if name == "agentbox-docker":
        result = asyncio.run(agentbox(runs, lanes, image))
    else:
        result = llm_sandbox(name.removeprefix("llm-sandbox-"), runs, lanes, image)
    if name.endswith("docker"):
        result["cpu_ms"] = None
    print(json.dumps(result))


if __name__ == "__main__":
    main()
