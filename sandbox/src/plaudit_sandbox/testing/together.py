"""That many runs at once are each right, and that cancelling ends a run."""

from __future__ import annotations

import asyncio
import time

from plaudit_sandbox.protocol import Sandbox
from plaudit_sandbox.testing.check import OpenBox, collect, expect


async def check_many_at_once(box: Sandbox, open_box: OpenBox) -> None:
    results = await asyncio.gather(*(box.run(f"print({i} * {i}, input())", stdin=f"in{i}") for i in range(40)))
    for i, result in enumerate(results):
        expect(result.ok and result.text == f"{i * i} in{i}\n", result)


async def check_good_among_bad(box: Sandbox, open_box: OpenBox) -> None:
    programs = [
        "print('good')",
        "while True: pass",
        "import os\nos._exit(9)",
        "hold = []\nwhile True: hold.append(bytearray(1 << 23))",
    ]
    results = await asyncio.gather(*(box.run(programs[i % 4], timeout_s=2) for i in range(12)))
    for i, result in enumerate(results):
        expect(result.status in (("ok",), ("timeout",), ("failed",), ("memory", "timeout"))[i % 4], result)


async def check_files_of_neighbour(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import time\ntry: path = '/tmp/mine'; open(path, 'a').close()\nexcept OSError: path = 'mine'\n"
        "open(path, 'a').write(input() + '\\n')\ntime.sleep(0.2)\nprint(open(path).read(), end='')"
    )
    results = await asyncio.gather(*(box.run(program, stdin=f"{i}") for i in range(6)))
    for i, result in enumerate(results):
        expect(result.ok and result.text == f"{i}\n", result)


async def check_cancel(box: Sandbox, open_box: OpenBox) -> None:
    for program in ("import time\ntime.sleep(60)", "while True: pass", "import os\nos.fork()\nwhile True: os.fork()"):
        task = asyncio.ensure_future(box.run(program, timeout_s=30))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        task.cancel()
        await asyncio.wait([task])
        assert time.monotonic() - began < 10, "cancelling took more than 10 s"
    result = await box.run("print('well')")
    expect(result.text == "well\n", result)


async def check_cancel_while_waiting(box: Sandbox, open_box: OpenBox) -> None:
    tasks = [asyncio.ensure_future(box.run("import time\ntime.sleep(0.3)\nprint(1)")) for _ in range(12)]
    await asyncio.sleep(0.05)
    for task in tasks[::2]:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in done[1::2]:
        assert not isinstance(outcome, BaseException), outcome
        expect(outcome.text == "1\n", outcome)


async def check_cancel_many(box: Sandbox, open_box: OpenBox) -> None:
    for _ in range(3):
        tasks = [asyncio.ensure_future(box.run("while True: pass", timeout_s=30)) for _ in range(8)]
        await asyncio.sleep(0.1)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    results = await asyncio.gather(*(box.run(f"print({i})") for i in range(8)))
    for i, result in enumerate(results):
        expect(result.text == f"{i}\n", result)


async def check_waiting_is_told(box: Sandbox, open_box: OpenBox) -> None:
    results = await asyncio.gather(*(box.run("import time\ntime.sleep(0.05)") for _ in range(40)))
    assert max(result.queue_s for result in results) > min(result.queue_s for result in results) >= 0
    assert all(result.ok for result in results)


CHECKS = collect(globals())
