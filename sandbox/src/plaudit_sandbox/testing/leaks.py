"""That nothing of one run reaches another."""

from __future__ import annotations

import asyncio
import os

from plaudit_sandbox.protocol import Sandbox
from plaudit_sandbox.testing.check import OpenBox, collect, expect

_SCAN_MEMORY = """
import re, sys
marker = bytes.fromhex({marker!r})
try:
    maps, memory = open('/proc/self/maps'), open('/proc/self/mem', 'rb', 0)
except OSError:
    sys.exit(print('no /proc here'))
for line in maps:
    found = re.match(r'([0-9a-f]+)-([0-9a-f]+) r', line)
    if not found or '[v' in line: continue
    start, end = (int(x, 16) for x in found.groups())
    try:
        memory.seek(start)
        data = memory.read(end - start)
    except (OSError, ValueError, MemoryError): continue
    position = data.find(marker)
    while position >= 0:
        if data[position + len(marker):position + len(marker) + 4] == b'-end': print('found', line)
        position = data.find(marker, position + 1)
print('looked')
"""


async def check_files_of_earlier_run(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import os, tempfile\n"
        "for place in ('.', '/tmp', '/var/tmp', '/dev/shm', tempfile.gettempdir()):\n"
        "    try: open(place + '/left-behind', 'w').write('x')\n"
        "    except OSError: pass\n"
        "os.makedirs('closed/inner')\nopen('closed/inner/file', 'w').close()\n"
        "os.chmod('closed/inner', 0)\nos.chmod('closed', 0)"
    )
    look = (
        "import os, tempfile\n"
        "for place in ('.', '/tmp', '/var/tmp', '/dev/shm', tempfile.gettempdir()):\n"
        "    try: names = os.listdir(place)\n"
        "    except OSError: continue\n"
        "    if 'left-behind' in names or 'closed' in names: print(place, names)"
    )
    for _ in range(2):
        await box.run(program)
    result = await box.run(look)
    expect(result.ok and not result.stdout, result)


async def check_names_of_earlier_run(box: Sandbox, open_box: OpenBox) -> None:
    await box.run(
        "import builtins, json, sys\nbuiltins.secret = json.secret = sys.secret = 1\nbuiltins.len = None\nx = 1"
    )
    result = await box.run(
        "import builtins, json\n"
        "print(hasattr(builtins, 'secret'), hasattr(json, 'secret'), len('ab'), 'x' in globals())"
    )
    expect(result.ok and result.text == "False False 2 False\n", result)


async def check_environment_of_earlier_run(box: Sandbox, open_box: OpenBox) -> None:
    await box.run("pass", env={"EARLIER": "secret"})
    result = await box.run("import os\nprint(os.environ.get('EARLIER'))")
    expect(result.ok and result.text == "None\n", result)


async def check_memory_of_earlier_run(box: Sandbox, open_box: OpenBox) -> None:
    marker = os.urandom(12).hex().encode()
    text = marker.decode() + "-end"
    await box.run(
        f"# {text}\nprint({text!r} * 50)\nopen('out.txt', 'w').write({text!r})", stdin=text * 20, collect=["out.txt"]
    )
    result = await box.run(_SCAN_MEMORY.format(marker=marker.hex()))
    expect("found" not in result.text and ("looked" in result.text or "no /proc" in result.text), result)


async def check_memory_of_earlier_session(box: Sandbox, open_box: OpenBox) -> None:
    marker = os.urandom(12).hex().encode()
    text = marker.decode() + "-end"

    async def echo(data: bytes) -> bytes:
        return data * 100

    async with box.session() as session:
        await session.run(f"x = {text!r}\nx", stdin=text)
        await session.run(f"import plaudit_host\nprint(plaudit_host.call({text!r}.encode())[-4:])", on_call=echo)
    result = await box.run(_SCAN_MEMORY.format(marker=marker.hex()))
    expect("found" not in result.text and ("looked" in result.text or "no /proc" in result.text), result)


async def check_escaping_children(box: Sandbox, open_box: OpenBox) -> None:
    """Daemons, in sessions of their own and doubly forked, end with the run."""
    program = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        while True:\n"
        "            try: open('/tmp/alive', 'w').close()\n"
        "            except OSError: open('alive', 'w').close()\n"
        "            time.sleep(0.01)\n"
        "    os._exit(0)\n"
        "time.sleep(0.2)\nprint('left')"
    )
    result = await box.run(program)
    expect(result.ok and result.text == "left\n" and result.wall_s < 4, result)
    await asyncio.sleep(0.1)
    look = "import os, time\ntime.sleep(0.3)\nprint(os.path.exists('/tmp/alive') or os.path.exists('alive'))"
    for _ in range(3):
        result = await box.run(look)
        expect(result.text == "False\n", result)


async def check_closed_pipes_of_children(box: Sandbox, open_box: OpenBox) -> None:
    """A child that holds stdout open does not keep the run from ending."""
    result = await box.run("import os, time\nif os.fork() == 0: time.sleep(60)\nprint('over')")
    expect(result.ok and result.text == "over\n" and result.wall_s < 4, result)


async def check_result_is_the_last_runs(box: Sandbox, open_box: OpenBox) -> None:
    await box.run("print('y' * 100000)\nopen('f', 'w').write('old')", collect=["f"])
    result = await box.run("print(end='')", collect=["f"])
    expect(result.ok and result.stdout == b"" and not result.files, result)


CHECKS = collect(globals())
