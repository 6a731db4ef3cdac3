"""Runs a second, CPU a run and latencies of the sandboxes, beside their peers in the same minutes.

    python benchmarks/sandbox.py [--runs 400] [--llm-sandbox PYTHON] [--agentbox PYTHON] [--docker] [--image NAME]
                                 [--e2b] [--json FILE]
    python benchmarks/sandbox.py --soak 10000

Every program prints 1. CPU is that of this process and its children (getrusage), without what opening costs; docker's
containers are no children, so theirs is left out. --llm-sandbox and --agentbox name the Python of an environment in
which the peer is installed; what is missing is skipped with the reason. Bars: local at the namespaces tier at least 5 x
llm-sandbox's bubblewrap in runs a second and at most 6 ms of CPU a run; docker at least 10 x agentbox-rl's warm exec;
e2b at least 100 runs a second, on a stand-in for the cloud.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sandbox_e2b
from plaudit_sandbox import Limits, Sandbox, SandboxError, open_sandbox
from sandbox_peers import cpu_s, measure_threads
from sandbox_soak import soak

IN_FLIGHT = (1, 8, 64)


@dataclass(frozen=True)
class Row:
    """A line of the table. rate: runs a second; cpu_ms: CPU a run; latencies: p50, p95, p99 in ms by runs in flight."""

    name: str
    rate: float | None
    cpu_ms: float | None
    latencies: dict[int, tuple[float, float, float]]
    skipped: str = ""


async def ours(name: str, runs: int, options: dict[str, Any]) -> Row:
    """One of our back ends at 1, 8 and 64 in flight; the rate is the best of them, CPU that of all."""
    try:
        empty = await _cpu_of(name, 0, options)
        total, rates, latencies = await _measured(name, runs, options)
    except SandboxError as error:
        return Row(f"plaudit {name}", None, None, {}, str(error))
    cpu_ms = (total - empty) / (runs * len(IN_FLIGHT)) * 1000 if name == "local" else None
    tier = options.get("tier", "")
    return Row(f"plaudit {name} {tier}".strip(), max(rates), cpu_ms, latencies)


async def _cpu_of(name: str, runs: int, options: dict[str, Any]) -> float:
    before = cpu_s()
    async with open_sandbox(name, limits=Limits(), **options) as box:
        await _warm(box)
    return cpu_s() - before


async def _measured(name: str, runs: int, options: dict[str, Any]) -> tuple[float, list[float], dict[int, Any]]:
    before, rates, latencies = cpu_s(), [], {}
    async with open_sandbox(name, limits=Limits(), **options) as box:
        await _warm(box)
        for in_flight in IN_FLIGHT:
            rate, taken = await _lanes(box, in_flight, runs)
            rates.append(rate)
            latencies[in_flight] = percentiles(taken)
    return cpu_s() - before, rates, latencies


async def _warm(box: Sandbox) -> None:
    await asyncio.gather(*(box.run("print(1)") for _ in range(8)))


async def _lanes(box: Sandbox, in_flight: int, runs: int) -> tuple[float, list[float]]:
    taken: list[float] = []

    async def lane(count: int) -> None:
        for _ in range(count):
            began = time.perf_counter()
            result = await box.run("print(1)")
            if result.stdout != b"1\n":
                raise RuntimeError(f"{result.status}: {result.detail} {result.error_text}")
            taken.append((time.perf_counter() - began) * 1000)

    began = time.perf_counter()
    await asyncio.gather(*(lane(runs // in_flight) for _ in range(in_flight)))
    return len(taken) / (time.perf_counter() - began), taken


def plain_subprocess(runs: int) -> Row:
    """A bare `python -I -S -c` a run: no isolation at all."""

    def run() -> str:
        return subprocess.run([sys.executable, "-I", "-S", "-c", "print(1)"], capture_output=True, text=True).stdout

    return _row("subprocess, no isolation", measure_threads([run] * 2, runs), 2)


def peer(name: str, python: str | None, runs: int, image: str | None) -> Row:
    """A peer, measured by the Python of its own environment with two lanes."""
    if not python:
        option = "--agentbox" if name.startswith("agentbox") else "--llm-sandbox"
        return Row(name, None, None, {}, f"not given: {option} PYTHON")
    script = Path(__file__).with_name("sandbox_peers.py")
    command = [python, str(script), name, str(runs), "2", *([image] if image else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        return Row(name, None, None, {}, lines[-1][:200])
    return _row(name, json.loads(done.stdout.splitlines()[-1]), 2)


def _row(name: str, measured: dict[str, Any], lanes: int) -> Row:
    return Row(name, measured["rate"], measured["cpu_ms"], {lanes: percentiles(measured["latencies"])})


def percentiles(values: list[float]) -> tuple[float, float, float]:
    """p50, p95, p99."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[94], cuts[98]


def table(rows: list[Row]) -> str:
    """The rows as text."""
    lines = [f"{'':34}{'runs/s':>8}{'CPU ms':>8}   latency ms p50/p95/p99 at N in flight"]
    for row in rows:
        if row.skipped:
            lines.append(f"{row.name:34}skipped: {row.skipped}")
            continue
        cpu = "-" if row.cpu_ms is None else f"{row.cpu_ms:.2f}"
        latencies = "  ".join(f"{n}: {a:.1f}/{b:.1f}/{c:.1f}" for n, (a, b, c) in row.latencies.items())
        lines.append(f"{row.name:34}{row.rate:8.1f}{cpu:>8}   {latencies}")
    return "\n".join(lines)


async def benchmark(args: argparse.Namespace) -> list[Row]:
    """All rows, ours and the peers' in turn."""
    rows = [
        await ours("local", args.runs, {"tier": "namespaces"}),
        peer("llm-sandbox-bubblewrap", args.llm_sandbox, args.runs // 4, None),
        await ours("local", args.runs, {"tier": "landlock"}),
        plain_subprocess(args.runs // 2),
    ]
    if args.docker:
        options = {"image": args.image} if args.image else {}
        rows.append(await ours("docker", args.runs, options))
        rows.append(peer("agentbox-docker", args.agentbox, args.runs // 8, args.image))
        rows.append(peer("llm-sandbox-docker", args.llm_sandbox, args.runs // 16, args.image))
    if args.e2b:
        with sandbox_e2b.standin():
            rows.append(await ours("e2b", args.runs, sandbox_e2b.OPTIONS))
            rows.append(_row("e2b SDK, commands.run each", await sandbox_e2b.plain_sdk(args.runs // 4, 8), 8))
    return rows


def main() -> None:
    """Print the table; with --soak run the soak instead and exit 1 if it found anything wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=400, help="runs at each number in flight")
    parser.add_argument("--llm-sandbox", help="Python of an environment with llm-sandbox")
    parser.add_argument("--agentbox", help="Python of an environment with agentbox-rl")
    parser.add_argument("--docker", action="store_true", help="measure docker too; needs an engine")
    parser.add_argument("--image", help="image for the docker rows; it must have python3")
    parser.add_argument("--e2b", action="store_true", help="measure e2b too, on a stand-in for the cloud")
    parser.add_argument("--json", type=Path, help="also write the rows here")
    parser.add_argument(
        "--soak", type=int, metavar="RUNS", help="soak with that many runs, 5 %% of them bombs and hangs"
    )
    parser.add_argument("--backend", default="local", help="back end of the soak")
    args = parser.parse_args()
    if args.soak:
        report = asyncio.run(soak(args.backend, args.soak))
        print(json.dumps(report, indent=2))
        sys.exit(0 if report["ok"] else 1)
    rows = asyncio.run(benchmark(args))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n{table(rows)}")
    if args.json:
        args.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    main()
