"""That programs run as they would elsewhere, and that data goes in and comes out unchanged."""

from __future__ import annotations

import os
import zlib

from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.protocol import Program, Sandbox
from plaudit_sandbox.testing.check import OpenBox, Skip, collect, expect

_EVERY_BYTE = bytes(range(256)) * 17


async def check_prints(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("print(6 * 7)")
    expect(result.ok and result.stdout == b"42\n" and result.exit_code == 0 and not result.stderr, result)


async def check_exit_code(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import sys\nsys.exit(7)")
    expect(result.status == "failed" and result.exit_code == 7, result)


async def check_exit_by_name(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("print('before')\nquit()\nprint('after')")
    expect(result.ok and result.stdout == b"before\n", result)


async def check_uncaught_exception(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("def f():\n    return 1 / 0\nf()\n")
    expect(result.status == "failed" and result.exit_code == 1, result)
    expect(result.error_text.endswith("ZeroDivisionError: division by zero\n"), result)
    expect("line 2, in f" in result.error_text, result)


async def check_syntax_error(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("print('never'\n")
    expect(result.status == "compile" and "SyntaxError" in result.error_text and not result.stdout, result)


async def check_death_by_signal(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nprint('still here')")
    expect(result.status == "killed" and result.exit_code == -15 and not result.stdout, result)


async def check_segmentation_fault(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import ctypes\nctypes.string_at(0)")
    expect(result.status == "killed" and result.exit_code == -11, result)


async def check_stdin(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("print(sum(int(input()) for _ in range(2)))", stdin="20\n22\n")
    expect(result.ok and result.stdout == b"42\n", result)


async def check_stdin_ends(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("input()")
    expect(result.status == "failed" and "EOFError" in result.error_text, result)


async def check_binary(box: Sandbox, open_box: OpenBox) -> None:
    echo = (
        "import sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data)\nsys.stderr.buffer.write(data[::-1])"
    )
    result = await box.run(echo, stdin=_EVERY_BYTE)
    expect(result.ok and result.stdout == _EVERY_BYTE and result.stderr == _EVERY_BYTE[::-1], result)


async def check_unicode(box: Sandbox, open_box: OpenBox) -> None:
    text = "naïve Ω 日本語 🦊 \u2028 e\u0301"
    result = await box.run(f"# {text}\nprint(input() == {text!r}, input())", stdin=f"{text}\n{text}\n")
    expect(result.ok and result.text == f"True {text}\n", result)


async def check_large_stdin(box: Sandbox, open_box: OpenBox) -> None:
    data = os.urandom(1 << 16) * 64
    result = await box.run("import sys, zlib\nprint(zlib.crc32(sys.stdin.buffer.read()))", stdin=data)
    expect(result.ok and int(result.text) == zlib.crc32(data), result)


async def check_large_output(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import sys\nfor i in range(9000):\n    print(f'{i:079d}')\n    print(i, file=sys.stderr)")
    expect(result.ok and result.stdout == b"".join(b"%079d\n" % i for i in range(9000)), result)
    expect(result.stderr == b"".join(b"%d\n" % i for i in range(9000)), result)


async def check_files_in(box: Sandbox, open_box: OpenBox) -> None:
    files: dict[str, str | bytes] = {
        "data/deep/numbers.bin": _EVERY_BYTE,
        "helper.py": "def double(x):\n    return 2 * x\n",
    }
    program = "import helper\nprint(helper.double(len(open('data/deep/numbers.bin', 'rb').read())))"
    result = await box.run(program, files=files)
    expect(result.ok and int(result.text) == 2 * len(_EVERY_BYTE), result)


async def check_files_out(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import os\nos.makedirs('out/deep')\nopen('out/a.bin', 'wb').write(bytes(range(256)))\n"
        "open('out/deep/b.txt', 'w').write('é')\nopen('other', 'w').write('x')"
    )
    result = await box.run(program, collect=["out/*", "missing.txt"])
    expect(dict(result.files) == {"out/a.bin": bytes(range(256)), "out/deep/b.txt": "é".encode()}, result)


async def check_files_out_of_a_failure(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("open('log', 'w').write('so far')\nraise SystemExit(3)", collect=["log"])
    expect(result.exit_code == 3 and dict(result.files) == {"log": b"so far"}, result)


async def check_paths_stay_inside(box: Sandbox, open_box: OpenBox) -> None:
    for path in ("../up", "/etc/motd", "a/../../b", ""):
        try:
            result = await box.run("pass", files={path: "x"})
        except SandboxError:
            continue
        expect(False, result)


async def check_environment_given(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run(
        "import os\nprint(os.environ['GIVEN'], os.environ['HOME'] == os.getcwd())", env={"GIVEN": "ü"}
    )
    expect(result.ok and result.text == "ü True\n", result)


async def check_arguments(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run(Program("import sys\nprint(sys.argv[1:])", arguments=["-n", "a b"]))
    expect(result.ok and result.text == "['-n', 'a b']\n", result)


async def check_runs_as_main(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import sys\nclass A: pass\n"
        "print(__name__, A.__module__, sys.modules['__main__'].A is A, '__file__' in globals())"
    )
    result = await box.run(program)
    expect(result.ok and result.text == "__main__ __main__ True True\n", result)


async def check_exit_handlers_and_threads(box: Sandbox, open_box: OpenBox) -> None:
    program = (
        "import atexit, threading, time\natexit.register(print, 'handler')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\nprint('main')"
    )
    result = await box.run(program)
    expect(result.ok and result.text == "main\nthread\nhandler\n", result)


async def check_child_processes(box: Sandbox, open_box: OpenBox) -> None:
    program = "import subprocess, sys\nprint(subprocess.check_output([sys.executable, '-c', 'print(1 + 1)']).decode())"
    result = await box.run(program)
    expect(result.ok and result.text.strip() == "2", result)


async def check_times_are_measured(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run("import time\ntime.sleep(0.3)")
    expect(result.ok and 0.25 < result.wall_s < 4 and result.cpu_s < 0.3 and result.peak_memory_mb > 1, result)


async def check_shell(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run(Program("read x; echo $((x * 2)) $1; exit 5", "sh", ["arg"]), stdin="21\n")
    expect(result.exit_code == 5 and result.text == "42 arg\n", result)


async def check_command(box: Sandbox, open_box: OpenBox) -> None:
    result = await box.run(Program(command=["sort", "-n", "in.txt"]), files={"in.txt": "10\n9\n"})
    expect(result.ok and result.text == "9\n10\n", result)


async def check_missing_toolchain(box: Sandbox, open_box: OpenBox) -> None:
    try:
        result = await box.run(Program(command=["no-such-program-anywhere"]))
    except SandboxError:
        return
    expect(False, result)


async def check_unknown_language(box: Sandbox, open_box: OpenBox) -> None:
    try:
        result = await box.run(Program("x", language="klingon"))
    except SandboxError:
        return
    expect(False, result)


async def check_compiled(box: Sandbox, open_box: OpenBox) -> None:
    source = '#include <stdio.h>\nint main(void) { int x; scanf("%d", &x); printf("%d\\n", 2 * x); return 3; }\n'
    try:
        result = await box.run(Program(source, "c"), stdin="21")
        broken = await box.run(Program("int main(void) { return }", "c"))
    except SandboxError as error:
        raise Skip(str(error)) from error
    expect(result.exit_code == 3 and result.text == "42\n", result)
    expect(broken.status == "compile" and "error" in broken.error_text, broken)


async def check_host_calls(box: Sandbox, open_box: OpenBox) -> None:
    async def reverse(data: bytes) -> bytes:
        return data[::-1]

    program = "import plaudit_host\nprint(plaudit_host.call(b'ab'), plaudit_host.call(b'\\x00' * 100000 + b'x')[:1])"
    result = await box.run(program, on_call=reverse)
    expect(result.ok and result.text == "b'ba' b'x'\n", result)


CHECKS = collect(globals())
