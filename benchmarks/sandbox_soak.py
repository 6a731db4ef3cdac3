"""Many runs, 5 % of them bombs and hangs: is every verdict right, and is anything left behind?"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from plaudit_sandbox import Limits, Sandbox, open_sandbox

LIMITS = Limits(timeout_s=3, memory_mb=128, processes=32, file_mb=8, disk_mb=32, output_kb=64)
IN_FLIGHT = 16
GOOD = (
    ("print(sum(range(int(input()))))", "1000", "ok", b"499500\n"),
    ("import sys\nsys.exit(3)", "", "failed", b""),
    ("1 / 0", "", "failed", b""),
    ("x = (", "", "compile", b""),
    ("open('f', 'w').write('x' * 100)\nprint(open('f').read()[:3])", "", "ok", b"xxx\n"),
)
BAD = (
    ("while True: pass", ("timeout",)),
    ("import time\ntime.sleep(60)", ("timeout",)),
    ("import os\nwhile True: os.fork()", ("failed", "timeout", "killed", "memory")),
    ("hold = []\nwhile True: hold.append(bytearray(1 << 22))", ("memory",)),
    ("import os\nfor _ in range(20):\n    if os.fork() == 0: hold = [bytearray(1 << 20) for _ in range(60)]\n"
     "import time\ntime.sleep(30)", ("memory", "timeout")),
    ("while True: print('x' * 1000)", ("output",)),
    ("i = 0\nwhile True:\n    open(f'f{i}', 'wb').write(bytes(1 << 22)); i += 1", ("failed", "output")),
    ("import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\nprint('left')", ("ok",)),
    ("import os\nos.kill(os.getpid(), 9)", ("killed",)),
    ("import ctypes\nctypes.string_at(0)", ("killed",)),
)  # fmt: skip


async def soak(backend: str, runs: int) -> dict[str, Any]:
    """Run `runs` programs and report wrong verdicts and leftovers (processes, memory, descriptors, files, cgroups)."""
    numbers, rng = itertools.count(), random.Random(0)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    async with open_sandbox(backend, limits=LIMITS) as box:
        await box.run("pass")
    before = leftovers()
    began = time.monotonic()
    samples: list[int] = []
    async with open_sandbox(backend, limits=LIMITS) as box:

        async def lane() -> None:
            while (number := next(numbers)) < runs:
                await _one(box, number, rng.random() < 0.05, counts, wrong)
                if number % max(1, runs // 20) == 0:
                    samples.append(resident_mb())

        await asyncio.gather(*(lane() for _ in range(IN_FLIGHT)))
    after = leftovers()
    grown = samples[-1] - samples[len(samples) // 4]
    return {
        "ok": not wrong and after == before and grown < 30,
        "runs": runs,
        "seconds": round(time.monotonic() - began, 1),
        "statuses": dict(counts),
        "wrong": wrong[:20],
        "before": before,
        "after": after,
        "resident_mb": samples,
    }


async def _one(box: Sandbox, number: int, bad: bool, counts: Counter[str], wrong: list[str]) -> None:
    if bad:
        program, allowed = BAD[number % len(BAD)]
        result = await box.run(program)
        right = result.status in allowed
    else:
        program, stdin, status, stdout = GOOD[number % len(GOOD)]
        result = await box.run(program, stdin=stdin)
        right = result.status == status and result.stdout == stdout
    counts[result.status] += 1
    if not right:
        wrong.append(f"{program!r}: {result.status} {result.detail} {result.text[:80]!r} {result.error_text[-200:]!r}")


def leftovers() -> dict[str, int]:
    """What a sandbox could leave: this process's children, descriptors and mounts, folders in /tmp, cgroups."""
    parent = str(os.getpid())
    processes = subprocess.run(["ps", "-e", "-o", "ppid=,comm="], capture_output=True, text=True).stdout.splitlines()
    children = [line for line in processes if line.split()[0] == parent and line.split()[1] != "ps"]
    return {
        "children": len(children),
        "descriptors": len([fd for fd in os.listdir("/proc/self/fd") if _is_pipe_or_file(fd)]),
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
        "folders": len([path for path in Path(tempfile.gettempdir()).glob("plaudit-[0-9]*") if _is_orphan(path)]),
        "cgroups": len([path for path in Path("/sys/fs/cgroup").glob("**/plaudit-[0-9]*") if _is_orphan(path)]),
    }


def _is_orphan(path: Path) -> bool:
    """Whether the nursery that made it (plaudit-PID-…) is gone."""
    return not Path("/proc", path.name.split("-")[1]).exists()


def resident_mb() -> int:
    """Resident memory of this process in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) // 1024
    return 0


def _is_pipe_or_file(fd: str) -> bool:
    try:
        target = os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return False
    # The event loops' own sockets come and go with them.
    return not target.startswith(("anon_inode", "/proc"))
