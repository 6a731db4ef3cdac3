"""That a run can use no more than its limits, and that the sandbox is well afterwards."""

from __future__ import annotations

import time
from dataclasses import replace

from plaudit_sandbox.protocol import Program, Sandbox
from plaudit_sandbox.testing.check import CHECK_LIMITS, OpenBox, Skip, collect, expect

_MIB = 1 << 20


async def _well(box: Sandbox) -> None:
    result = await box.run("print('well')")
    expect(result.ok and result.text == "well\n", result)


async def check_sleeping_too_long(box: Sandbox, open_box: OpenBox) -> None:
    began = time.monotonic()
    result = await box.run("print('begun', flush=True)\nimport time\ntime.sleep(60)", timeout_s=0.5)
    expect(result.status == "timeout" and result.exit_code is None and result.text == "begun\n", result)
    assert time.monotonic() - began < 20, "a timeout of 0.5 s took more than 20 s"


async def check_computing_too_long(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("while True: pass", timeout_s=0.5)
    expect(result.status == "timeout", result)


async def check_ignoring_signals(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
        "    except OSError: pass\nwhile True: pass"
    )
    result = await box.run(program, timeout_s=0.5)
    expect(result.status == "timeout", result)


async def check_cpu_time(box: Sandbox, open_box: OpenBox) -> None:
    async with open_box(limits=replace(CHECK_LIMITS, timeout_s=60, cpu_s=1)) as other:
        result = await other.run("while True: pass")
    expect(result.status == "timeout" and result.wall_s < 50, result)


async def check_memory(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("hold = []\nwhile True: hold.append(bytearray(8 << 20))")
    expect(result.status == "memory", result)
    await _well(box)


async def check_memory_at_once(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("bytearray(64 << 30)")
    expect(result.status == "memory", result)


async def check_memory_of_all_processes(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        hold = bytearray(100 << 20)\n"
        "        print('held', flush=True)\n"
        "        time.sleep(1)\n"
        "        os._exit(0)\n"
        "time.sleep(1.5)\n"
        "raise SystemExit(sum(os.wait()[1] != 0 for _ in range(6)))"
    )
    result = await box.run(program)
    expect(not result.ok, result)
    await _well(box)


async def check_fork_bomb(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import os\nwhile True: os.fork()", timeout_s=2)
    expect(not result.ok, result)
    await _well(box)


async def check_patient_fork_bomb(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import os, time\n"
        "while True:\n"
        "    try:\n"
        "        if os.fork() == 0: os.setsid()\n"
        "    except OSError: time.sleep(0.01)"
    )
    result = await box.run(program, timeout_s=1)
    expect(not result.ok, result)
    await _well(box)


async def check_process_spawner(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import subprocess, sys\n"
        "loop = 'while True:\\n import subprocess, sys\\n subprocess.Popen([sys.executable, *sys.argv])'\n"
        "subprocess.Popen([sys.executable, '-c', loop])\nimport time\ntime.sleep(0.5)\nprint('done')"
    )
    await box.run(program)
    await _well(box)


async def check_thread_bomb(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import threading, time\ncount = 0\n"
        "try:\n"
        "    while count < 10000:\n"
        "        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()\n"
        "        count += 1\n"
        "except RuntimeError: pass\n"
        "print(count)"
    )
    result = await box.run(program)
    expect(not result.text or int(result.text) <= 10 * CHECK_LIMITS.processes, result)
    await _well(box)


async def check_one_large_file(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("open('fill', 'wb').write(bytes(200 << 20))\nprint('filled')")
    expect(not result.ok and "filled" not in result.text, result)
    await _well(box)


async def check_many_files(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "total = 0\n"
        "for i in range(200):\n"
        "    with open(f'fill{i}', 'wb') as f:\n"
        "        for _ in range(8): f.write(bytes(1 << 20)); f.flush()\n"
        "print('filled')"
    )
    result = await box.run(program)
    expect(not result.ok and "filled" not in result.text, result)
    await _well(box)


async def check_output_flood(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import sys\nwhile True: sys.stdout.write('x' * 65536)")
    expect(result.status == "output" and len(result.stdout) == CHECK_LIMITS.output_kb << 10, result)


async def check_error_flood(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import sys\nprint('kept', flush=True)\nwhile True: sys.stderr.write('x' * 65536)")
    expect(result.status == "output" and result.stdout == b"kept\n", result)


async def check_output_after_exit(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import os\nif os.fork():\n    print('parent', flush=True)\n    os._exit(0)\n"
        "while True: os.write(1, b'x' * 65536)"
    )
    result = await box.run(program)
    expect(result.status in ("ok", "output") and len(result.stdout) <= CHECK_LIMITS.output_kb << 10, result)
    await _well(box)


async def check_open_files(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("hold = []\nwhile True: hold.append(open('/dev/null'))")
    expect(result.status == "failed" and "Too many open files" in result.error_text, result)


async def check_deep_recursion(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", timeout_s=2)
    expect(not result.ok, result)
    await _well(box)


async def check_slow_compile(box: Sandbox, open_box: OpenBox) -> None:
    async with open_box(limits=replace(CHECK_LIMITS, compile_timeout_s=1)) as other:
        try:
            result = await other.run(Program('#include "/dev/zero"\nint main(void) { return 0; }', "c"))
        except Exception as error:
            raise Skip(str(error)) from error
    expect(not result.ok, result)


CHECKS = collect(globals())
