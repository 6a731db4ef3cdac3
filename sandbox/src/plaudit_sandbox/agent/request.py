"""What one run was asked for, as it lies in a frame.

The head holds only numbers and the paths to collect, because the agent parses it and lives on; everything else lies in
the body (a marshalled specification, stdin, source, files), which only the process of that run reads.
"""

from __future__ import annotations

import marshal
import mmap
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .frames import Head

_LENGTHS = struct.Struct(">II")
_MARSHAL_VERSION = 2  # understood by every Python 3


class Settings(NamedTuple):
    """The numbers of a run; see `plaudit_sandbox.Limits`. Sizes in bytes, times in seconds."""

    timeout_s: float
    compile_timeout_s: float
    cpu_s: float
    memory: int
    processes: int
    file: int
    disk: int
    open_files: int
    output: int
    calls: bool
    collect: Sequence[str]

    @classmethod
    def from_head(cls, head: Head) -> Settings:
        """Raises ValueError if a value is missing."""
        try:
            return cls(**{name: head[name] for name in cls._fields})
        except KeyError as missing:
            raise ValueError(f"run request without {missing}") from None


class Specification(NamedTuple):
    """What to run. kind "python": `source` in this interpreter; "command": `command`, after `compile` if it has one."""

    kind: str
    source: memoryview
    stdin: memoryview
    arguments: Sequence[str]
    command: Sequence[str]
    compile: Sequence[str]
    env: Mapping[str, str]
    files: Sequence[tuple[str, memoryview]]


def stdin_of(body: mmap.mmap | bytes) -> memoryview:
    """The stdin in a body, without a look at the rest."""
    _, stdin_length = _LENGTHS.unpack_from(body)
    return memoryview(body)[_LENGTHS.size : _LENGTHS.size + stdin_length]


def read_body(body: mmap.mmap | bytes) -> Specification:
    """The specification in a body, its buffers as views."""
    text_length, stdin_length = _LENGTHS.unpack_from(body)
    view = memoryview(body)
    offset = _LENGTHS.size + stdin_length
    spec: dict[str, Any] = marshal.loads(view[offset : offset + text_length])
    offset += text_length
    buffers = []
    for length in spec["lengths"]:
        buffers.append(view[offset : offset + length])
        offset += length
    return Specification(
        kind=spec["kind"],
        source=buffers[0],
        stdin=stdin_of(body),
        arguments=spec["arguments"],
        command=spec["command"],
        compile=spec["compile"],
        env=spec["env"],
        files=list(zip(spec["files"], buffers[1:], strict=True)),
    )


def pack_body(spec: dict[str, Any], stdin: bytes, source: bytes, files: Mapping[str, bytes]) -> bytes:
    """The body for `spec` (kind, arguments, command, compile, env), as `read_body` reads it."""
    lengths = [len(source), *map(len, files.values())]
    text = marshal.dumps({**spec, "files": list(files), "lengths": lengths}, _MARSHAL_VERSION)
    return b"".join([_LENGTHS.pack(len(text), len(stdin)), stdin, text, source, *files.values()])
