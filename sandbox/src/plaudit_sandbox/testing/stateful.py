"""That sessions keep what they should, and no more."""

from __future__ import annotations

from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.protocol import Program, Sandbox
from plaudit_sandbox.testing.check import OpenBox, collect, expect


async def check_session_keeps_names(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        await session.run("import math\nx = 41\ndef f(n): return n + 1")
        result = await session.run("print(f(x), math.floor(2.5))")
    expect(result.ok and result.text == "42 2\n", result)


async def check_session_keeps_files(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        await session.run("open('kept', 'wb').write(bytes(range(256)))", files={"given": "g"})
        result = await session.run("open('kept', 'rb').read()[-1], open('given').read()", collect=["kept"])
    expect(result.text == "(255, 'g')\n" and result.files["kept"] == bytes(range(256)), result)


async def check_session_prints_last_value(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        value = await session.run("x = 2\nx * 21")
        nothing = await session.run("None")
        printed = await session.run("print('a')\nx;")
    expect(value.text == "42\n" and nothing.text == "" and printed.text.startswith("a\n"), value)


async def check_session_survives_errors(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        await session.run("x = 1")
        raised = await session.run("1 / 0")
        expect(raised.status == "failed" and "ZeroDivisionError" in raised.error_text, raised)
        broken = await session.run("x = (")
        expect(broken.status == "compile", broken)
        left = await session.run("import sys\nsys.exit(3)")
        expect(left.exit_code == 3, left)
        result = await session.run("x")
        expect(result.text == "1\n", result)


async def check_session_interrupt_keeps_names(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        await session.run("x = 7")
        late = await session.run("while True: pass", timeout_s=0.5)
        expect(late.status == "timeout", late)
        result = await session.run("x")
        expect(result.text == "7\n", result)


async def check_session_restart(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        await session.run("x = 7\nopen('kept', 'w').write('k')")
        stubborn = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
        late = await session.run(stubborn, timeout_s=0.5)
        expect(late.status == "timeout" and "restarted" in late.detail, late)
        result = await session.run("'x' in globals(), open('kept').read()")
        expect(result.text == "(False, 'k')\n", result)


async def check_session_memory(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        result = await session.run("hold = []\nwhile True: hold.append(bytearray(8 << 20))")
        expect(result.status == "memory", result)
        after = await session.run("hold = None\n1 + 1")
        expect(after.text == "2\n", after)


async def check_session_output_flood(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        result = await session.run("while True: print('x' * 1000)")
        expect(result.status == "output", result)
        after = await session.run("1 + 1")
        expect(after.text == "2\n", after)


async def check_session_commands(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        await session.run("open('n.txt', 'w').write('3\\n1\\n2\\n')")
        result = await session.run(Program(command=["sort", "n.txt"]))
        expect(result.ok and result.text == "1\n2\n3\n", result)
        late = await session.run(Program("sleep 60", "sh"), timeout_s=0.5)
        expect(late.status == "timeout", late)
        status = await session.run(Program("exit 4", "sh"))
        expect(status.status == "failed" and status.exit_code == 4, status)


async def check_session_stdin(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        first = await session.run("input()", stdin="one\ntwo\n")
        second = await session.run("input()", stdin="three\n")
    expect(first.text == "'one'\n" and second.text == "'three'\n", second)


async def check_session_host_calls(box: Sandbox, open_box: OpenBox) -> None:
    async def answer(data: bytes) -> bytes:
        return data.upper()

    async with box.session() as session:
        first = await session.run("import plaudit_host\nplaudit_host.call(b'ab')", on_call=answer)
        second = await session.run("plaudit_host.call(b'ab')")
    expect(first.text == "b'AB'\n" and second.status == "failed", second)


async def check_sessions_are_apart(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as one, box.session() as other:
        await one.run(
            "secret = 1\nopen('/tmp/secret' if __import__('os').access('/tmp', 2) else 'secret', 'w').close()"
        )
        result = await other.run(
            "import os\n'secret' in globals(), os.path.exists('/tmp/secret'), os.path.exists('secret')"
        )
    expect(result.text == "(False, False, False)\n", result)


async def check_session_ends(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        await session.run("import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])")
    try:
        result = await session.run("1")
    except SandboxError:
        return
    expect(False, result)


async def check_session_forgery(box: Sandbox, open_box: OpenBox) -> None:
    """Rubbish on the control channel ends the interpreter, not the sandbox."""
    async with box.session() as session:
        await session.run("import os\nos.write(3, b'\\xff' * 4096)")
        result = await session.run("1 + 1")
        expect(result.text == "2\n", result)


CHECKS = collect(globals())
