"""What a run gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["ok", "failed", "compile", "timeout", "memory", "output", "killed"]
"""Why a run ended.

ok: exit code 0. failed: another exit code, or an uncaught exception. compile: the compile step failed. timeout: wall or
CPU time used up. memory: over the memory limit. output: wrote more than it may. killed: a signal ended it.
"""


@dataclass(frozen=True, slots=True)
class Result:
    """One run's outcome. Everything in it but `status`, the times and the memory was chosen by the program.

    exit_code is negative for a signal (-9 = SIGKILL) and None where the sandbox ended the run.
    wall_s and cpu_s: seconds. peak_memory_mb: largest resident memory of one process. queue_s: time spent waiting for
    a free sandbox. detail: why it ended, for people. files: what `collect` asked for, those that exist, by path.
    """

    status: Status
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    wall_s: float
    cpu_s: float
    peak_memory_mb: float
    detail: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    queue_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.status == "ok"

    @property
    def text(self) -> str:
        """stdout as UTF-8, undecodable bytes replaced."""
        return self.stdout.decode(errors="replace")

    @property
    def error_text(self) -> str:
        """stderr as UTF-8, undecodable bytes replaced."""
        return self.stderr.decode(errors="replace")
