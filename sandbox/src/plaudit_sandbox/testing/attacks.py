"""Attacks by name. Each program says "reached" if it got where it must not, and "held" otherwise."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from plaudit_sandbox.protocol import Sandbox
from plaudit_sandbox.testing.attack_programs import ATTACKS, PRELUDE
from plaudit_sandbox.testing.check import Check, OpenBox, collect, expect


def _attack(name: str, body: str) -> Check:
    async def run(box: Sandbox, open_box: OpenBox) -> None:
        await _must_hold(box, body)
        well = await box.run("print('well')")
        expect(well.text == "well\n", well)

    return Check(name, run)


async def _must_hold(box: Sandbox, body: str) -> None:
    result = await box.run(f"{PRELUDE}{body}\nprint('held')")
    expect("reached" not in result.text and result.ok and result.text.endswith("held\n"), result)


async def check_host_file_by_path(box: Sandbox, open_box: OpenBox) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for place in (Path(folder), Path.home()):
            secret = place / f".plaudit-check-{os.getpid()}"
            try:
                secret.write_text("secret")
            except OSError:  # a home that is not writable
                continue
            try:
                await _must_hold(box, f"attempt(lambda: open({str(secret)!r}).read())")
            finally:
                secret.unlink()


async def check_environment_of_host(box: Sandbox, open_box: OpenBox) -> None:
    secret = f"secret-{os.urandom(8).hex()}"
    os.environ["PLAUDIT_CHECK_SECRET"] = secret
    try:
        body = (
            f"import glob\nif any({secret[:12]!r} in value for value in os.environ.values()): print('reached')\n"
            "for path in glob.glob('/proc/*/environ'):\n"
            "    try: text = open(path, 'rb').read()\n"
            "    except OSError: continue\n"
            "    if b'PLAUDIT_CHECK' in text or b'KEY' in text or b'TOKEN' in text: print('reached', path)"
        )
        await _must_hold(box, body)
    finally:
        del os.environ["PLAUDIT_CHECK_SECRET"]


async def check_loopback(box: Sandbox, open_box: OpenBox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        await _must_hold(box, f"attempt(lambda: socket.create_connection(('127.0.0.1', {port}), timeout=1))")


async def check_abstract_socket(box: Sandbox, open_box: OpenBox) -> None:
    name = f"\0plaudit-check-{os.urandom(6).hex()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        await _must_hold(box, f"attempt(lambda: socket.socket(socket.AF_UNIX).connect({name!r}) or 0)")


async def check_socket_file(box: Sandbox, open_box: OpenBox) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        os.chmod(folder, 0o755)
        path = f"{folder}/socket"
        server.bind(path)
        os.chmod(path, 0o777)
        server.listen()
        await _must_hold(box, f"attempt(lambda: socket.socket(socket.AF_UNIX).connect({path!r}) or 0)")


async def check_signal_to_host(box: Sandbox, open_box: OpenBox) -> None:
    body = f"import signal\nfor pid in ({os.getpid()}, {os.getppid()}):\n    attempt(lambda: os.kill(pid, 0) or pid)"
    result = await box.run(f"{PRELUDE}{body}\nprint('held')")
    # In a PID namespace the number may be one of its own.
    expect(result.text.endswith("held\n") and f"reached {os.getpid()}" not in result.text, result)


async def check_symlink_out(box: Sandbox, open_box: OpenBox) -> None:
    with _secret_file() as path:
        program = (
            f"import os\nos.symlink({path!r}, 'link.txt')\nos.symlink({os.path.dirname(path)!r}, 'folder')\n"
            "os.symlink('/etc', 'etc')\nos.mkfifo('pipe.txt')\nos.mkdir('dir.txt')"
        )
        result = await box.run(program, collect=["*.txt", "folder/*", "etc/*"])
    expect(result.ok and not result.files, result)


async def check_symlink_in(box: Sandbox, open_box: OpenBox) -> None:
    async with box.session() as session:
        with _secret_file() as path:
            await session.run(f"import os\nos.symlink({path!r}, 'in.txt')")
            result = await session.run("print(1)", files={"in.txt": "overwritten"})
            assert Path(path).read_text() == "secret", "a file of the host was overwritten through a link"
    expect(result.status in ("ok", "failed"), result)


async def check_interpreter_forgery(box: Sandbox, open_box: OpenBox) -> None:
    """Nothing that a program does to its interpreter changes what is told of it."""
    program = (
        "import builtins, sys, os, json\nbuiltins.print = lambda *a, **k: None\njson.dumps = lambda *a, **k: '{}'\n"
        "os._exit = lambda code: None\nsys.exit = lambda code=0: None\n"
        "class Liar:\n    def write(self, s): return 0\n    def flush(self): pass\n"
        "sys.stdout = sys.stderr = Liar()\nraise RuntimeError"
    )
    result = await box.run(program)
    expect(not result.ok, result)


@contextlib.contextmanager
def _secret_file() -> Iterator[str]:
    """A file of this machine that anyone may read."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = Path(folder, "secret.txt")
        path.write_text("secret")
        yield str(path)


CHECKS = [*(_attack(name, body) for name, body in ATTACKS.items()), *collect(globals())]
