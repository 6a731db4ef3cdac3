"""From the arguments of `run` to a frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plaudit_sandbox.agent.request import pack_body
from plaudit_sandbox.agent.workdir import split
from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.languages import invocation
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.protocol import Data, HostCall, Program


@dataclass(frozen=True, slots=True)
class Request:
    """One run, ready to be sent. hard_timeout_s: when to give up on an agent that does not answer."""

    head: Mapping[str, Any]
    body: bytes
    on_call: HostCall | None
    hard_timeout_s: float


def make_request(
    program: str | Program,
    limits: Limits,
    *,
    stdin: Data = b"",
    files: Mapping[str, Data] | None = None,
    collect: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
    on_call: HostCall | None = None,
) -> Request:
    """Raises SandboxError for arguments that cannot be meant."""
    if timeout_s is not None and not timeout_s > 0:
        raise SandboxError(f"timeout_s={timeout_s!r}: expected seconds above 0")
    if isinstance(collect, str):
        raise SandboxError(f"collect={collect!r}: expected a list of paths, such as [{collect!r}]")
    asked = invocation(program)
    arguments = program.arguments if isinstance(program, Program) else ()
    placed = {path: _bytes(content, path) for path, content in {**(files or {}), **asked.files}.items()}
    for path in [*placed, *collect]:
        _check_path(path)
    body = pack_body(
        {
            "kind": asked.kind,
            "arguments": list(map(str, arguments)),
            "command": list(map(str, asked.command)),
            "compile": list(asked.compile),
            "env": _environment(env),
        },
        _bytes(stdin, "stdin"),
        _bytes(asked.source, "program"),
        placed,
    )
    head = head_of("run", limits, timeout_s=timeout_s, calls=on_call is not None, collect=collect)
    compile_s = limits.compile_timeout_s if asked.compile else 0.0
    return Request(head, body, on_call, head["timeout_s"] + compile_s + 30.0)


def head_of(
    operation: str,
    limits: Limits,
    *,
    timeout_s: float | None = None,
    calls: bool = False,
    collect: Sequence[str] = (),
) -> dict[str, Any]:
    """The head of a `run`, `open` or `cell` frame."""
    timeout_s = limits.timeout_s if timeout_s is None else timeout_s
    return {
        "op": operation,
        "timeout_s": timeout_s,
        "compile_timeout_s": limits.compile_timeout_s,
        "cpu_s": timeout_s + 1 if limits.cpu_s is None else limits.cpu_s,
        "memory": limits.memory_mb << 20,
        "processes": limits.processes,
        "file": limits.file_mb << 20,
        "disk": limits.disk_mb << 20,
        "open_files": limits.open_files,
        "output": limits.output_kb << 10,
        "calls": calls,
        "collect": list(collect),
    }


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str) or not name or "=" in name or "\0" in name + value:
            raise SandboxError(f"env: {name!r} = {value!r}: expected a name and a text")
    return dict(env or {})


def _bytes(data: Data, what: str) -> bytes:
    if isinstance(data, str):
        # A lone surrogate, which models do write, is no UTF-8: the program sees what Python would have written.
        return data.encode("utf-8", errors="surrogatepass")
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise SandboxError(f"{what}: expected str or bytes, not {type(data).__name__}")


def _check_path(path: str) -> None:
    try:
        split(path)
    except ValueError as error:
        raise SandboxError(str(error)) from None
