"""Without an agent: one program, run by one command of the SDK in a sandbox that serves nothing else.

The transport answers the frames that an agent would. What it cannot do (sessions, calls to the host) it refuses.
"""

from __future__ import annotations

import asyncio
import contextlib
import fnmatch
import shlex
from typing import Any

from plaudit_sandbox.agent.frames import LENGTHS, pack_head, unpack_head, unpack_lengths
from plaudit_sandbox.agent.request import Settings, Specification, read_body
from plaudit_sandbox.agent.serve import VERSION
from plaudit_sandbox.e2b.cloud import Cloud
from plaudit_sandbox.e2b.sdk import named, trouble
from plaudit_sandbox.errors import InfrastructureFailure, SandboxRefused

_FOLDER, _IN, _OUT, _ERR = "plaudit-run", "plaudit-stdin", "plaudit-stdout", "plaudit-stderr"
_MARGIN_S = 30.0
_CLOSE_TIMEOUT_S = 10.0
_PYTHON = "python3"
_COMPILE_PYTHON = (_PYTHON, "-I", "-c", "compile(open('main.py', 'rb').read(), 'main.py', 'exec')")
_MISSING, _NOT_COMPILED = 97, 98
_SCRIPT = """\
command -v {program} >/dev/null || exit {missing}
cd {folder}
ulimit -c 0; ulimit -n {open_files}; ulimit -u {processes}; ulimit -f {file_kb}; ulimit -d {memory_kb}
alone="env -i PATH=$PATH HOME=$PWD TMPDIR=$PWD LANG=C.UTF-8 OMP_NUM_THREADS=1 {env}"
{compile}
ulimit -t {cpu_s}
began=$(date +%s%N)
(eval "exec $alone timeout -s KILL {timeout_s} {command}") < ../{stdin} > ../{stdout} 2> ../{stderr}
code=$?
echo "$code $(( ($(date +%s%N) - began) / 1000000 ))"
"""
_COMPILE = """\
command -v {program} >/dev/null || exit {missing}
(eval "exec $alone timeout -s KILL {timeout_s} {command}") < /dev/null > ../{stderr} 2>&1 || exit {not_compiled}
"""


class CommandTransport:
    """See `Transport`."""

    def __init__(self, cloud: Cloud, sandbox: Any) -> None:
        self._cloud, self._sandbox = cloud, sandbox
        self._sent = bytearray()
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._inbox.put_nowait(pack_head({"op": "hello", "version": VERSION, "tier": "command"}, 0))
        self._run: asyncio.Task[None] | None = None
        self._failure: InfrastructureFailure | None = None

    async def send(self, data: bytes) -> None:
        """See `Transport.send`. Raises SandboxRefused for what needs an agent."""
        self._sent += data
        while (frame := self._take()) is not None:
            head, body = frame
            if head["op"] == "open" or head.get("calls"):
                raise SandboxRefused(
                    "sessions and calls to the host need an agent in the sandbox, and none starts in this template; "
                    "use an E2B template with Python 3.10 or later"
                )
            if head["op"] == "run":
                self._run = asyncio.ensure_future(self._answer(Settings.from_head(head), body))
            elif head["op"] == "cancel":
                raise ConnectionResetError("only the end of its sandbox ends it")

    async def receive(self) -> bytes:
        """See `Transport.receive`."""
        data = await self._inbox.get()
        if not data:
            self._inbox.put_nowait(b"")
            if self._failure is not None:
                raise self._failure
        return data

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._cloud.kill(self._sandbox)
        if self._run is not None:  # it ends with its sandbox
            await asyncio.wait([self._run], timeout=_CLOSE_TIMEOUT_S)
            self._run.cancel()
        self._inbox.put_nowait(b"")

    async def over_memory(self) -> bool:
        """See `Transport.over_memory`: the cloud does not tell."""
        return False

    def _take(self) -> tuple[dict[str, Any], bytes] | None:
        if len(self._sent) < LENGTHS.size:
            return None
        head_length, body_length = unpack_lengths(self._sent[: LENGTHS.size])
        body_at, end = LENGTHS.size + head_length, LENGTHS.size + head_length + body_length
        if len(self._sent) < end:
            return None
        head, body = unpack_head(self._sent[LENGTHS.size : body_at]), bytes(self._sent[body_at:end])
        del self._sent[:end]
        return head, body

    async def _answer(self, settings: Settings, body: bytes) -> None:
        try:
            head, parts = await self._program(settings, read_body(body))
            data = b"".join(parts)
            self._inbox.put_nowait(pack_head(head, len(data)) + data)
        except Exception as error:
            self._failure = InfrastructureFailure(str(trouble(error)))
            self._inbox.put_nowait(b"")

    async def _program(self, settings: Settings, spec: Specification) -> tuple[dict[str, Any], list[bytes]]:
        command, compiler = _commands(spec)
        files = [(f"{_FOLDER}/{path}", bytes(content)) for path, content in spec.files]
        if spec.kind == "python":
            files.append((f"{_FOLDER}/main.py", bytes(spec.source)))
        files += [(_IN, bytes(spec.stdin)), (_OUT, b""), (_ERR, b""), (f"{_FOLDER}/.keep", b"")]
        await self._sandbox.files.write_files([{"path": path, "data": data} for path, data in files])
        limit_s = settings.timeout_s + (settings.compile_timeout_s if compiler else 0) + _MARGIN_S
        code, text = await self._command(_script(settings, spec, command, compiler), limit_s)
        if code == _MISSING:
            name = (compiler or command)[0]
            return {"op": "broken", "error": f"MissingToolchain: {name!r} is not installed in this sandbox"}, []
        exit_code, wall_ms = _told(text) if code == 0 else (1, 0)
        out, err = [await self._read(path, settings.output + 1) for path in (_OUT, _ERR)]
        status, detail = _status(settings, exit_code, wall_ms / 1000, max(len(out), len(err)))
        if code == _NOT_COMPILED:
            status, detail = "compile", "did not compile"
        found = await self._collect(settings)
        parts = [out[: settings.output], err[: settings.output], *found.values()]
        head = {
            "op": "result",
            "status": status,
            "detail": detail,
            "wall_s": wall_ms / 1000,
            "exit_code": None if status in ("timeout", "output") else _signed(exit_code),
            "cpu_s": 0.0,
            "peak_memory_mb": 0.0,
            "names": list(found),
            "lengths": list(map(len, parts)),
        }
        return head, parts

    async def _command(self, script: str, timeout_s: float) -> tuple[int, str]:
        """(exit code, stdout) of a script, which bounds its own time unless the sandbox is lost."""
        try:
            result = await self._sandbox.commands.run(script, timeout=timeout_s)
        except Exception as error:
            if not named(error, "CommandExitException"):
                raise
            return int(error.exit_code), str(error.stdout)  # type: ignore[attr-defined]
        return int(result.exit_code), str(result.stdout)

    async def _read(self, path: str, most: int) -> bytes:
        """The first bytes of a file that the program may have made as large as it may."""
        source = shlex.quote(path)
        code, _ = await self._command(f"test -f {source} && head -c {most} {source} > plaudit-read", 60)
        return bytes(await self._sandbox.files.read("plaudit-read", format="bytes")) if code == 0 else b""

    async def _collect(self, settings: Settings) -> dict[str, bytes]:
        if not settings.collect:
            return {}
        _, listed = await self._command(f"cd {_FOLDER} && find . -type f -print0 | head -c 1000000", 60)
        found: dict[str, bytes] = {}
        left = settings.disk
        for path in sorted(name.removeprefix("./") for name in listed.split("\0") if name):
            if any(fnmatch.fnmatchcase(path, pattern) for pattern in settings.collect):
                with contextlib.suppress(UnicodeEncodeError):
                    content = await self._read(f"{_FOLDER}/{path}", left + 1)
                    if len(content) <= left:
                        left -= len(content)
                        found[path] = content
        return found


def _commands(spec: Specification) -> tuple[list[str], list[str]]:
    """(what runs the program, what must come first)."""
    if spec.kind == "python":
        return [_PYTHON, "main.py", *spec.arguments], list(_COMPILE_PYTHON)
    return list(spec.command), list(spec.compile)


def _script(settings: Settings, spec: Specification, command: list[str], compiler: list[str]) -> str:
    names = {"missing": _MISSING, "stdin": _IN, "stdout": _OUT, "stderr": _ERR, "folder": _FOLDER}
    compile_step = ""
    if compiler:
        compile_step = _COMPILE.format(
            **names,
            program=shlex.quote(compiler[0]),
            command=_twice_quoted(compiler),
            timeout_s=settings.compile_timeout_s,
            not_compiled=_NOT_COMPILED,
        )
    return _SCRIPT.format(
        **names,
        program="true" if compiler else shlex.quote(command[0]),
        command=_twice_quoted(command),
        compile=compile_step,
        env=_twice_quoted([f"{name}={value}" for name, value in spec.env.items()]),
        open_files=settings.open_files,
        processes=settings.processes + 64,  # the user's others
        file_kb=settings.file >> 10,
        memory_kb=settings.memory >> 10,
        cpu_s=max(1, -int(-settings.cpu_s // 1)),
        timeout_s=settings.timeout_s,
    )


def _twice_quoted(words: list[str]) -> str:
    """For a place between double quotes whose content the shell reads again."""
    text = shlex.join(words)
    return "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)


def _told(text: str) -> tuple[int, int]:
    """(exit code, milliseconds) as the script prints them last; the program may have printed there before."""
    words = text.split()[-2:]
    if len(words) == 2 and all(word.isascii() and word.isdigit() for word in words):
        return int(words[0]) & 0xFF, int(words[1])
    return 1, 0


def _status(settings: Settings, exit_code: int, wall_s: float, longest: int) -> tuple[str, str]:
    if longest > settings.output:
        return "output", f"wrote more than {settings.output >> 10} KiB"
    if wall_s >= settings.timeout_s:
        return "timeout", f"took longer than {settings.timeout_s:g} s"
    if exit_code == 0:
        return "ok", ""
    code = _signed(exit_code)
    if code == -24:
        return "timeout", f"used more than {settings.cpu_s:g} CPU seconds"
    return ("killed", f"signal {-code}") if code < 0 else ("failed", f"exit code {code}")


def _signed(exit_code: int) -> int:
    """A shell's 128 + n for death by signal n, as -n."""
    return 128 - exit_code if 128 < exit_code < 128 + 65 else exit_code
