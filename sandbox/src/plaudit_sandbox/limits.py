"""How much a run may use."""

from __future__ import annotations

from dataclasses import dataclass, fields

from plaudit_sandbox.errors import SandboxError


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one run, or on each run of a session. All of them are positive.

    timeout_s: wall clock, from the first instruction of the program.
    compile_timeout_s: wall clock of the compile step, where the language has one.
    cpu_s: CPU seconds of each process; None means timeout_s + 1.
    memory_mb: memory of all processes together; where the machine offers no cgroup, of each process, and their sum is
        watched.
    processes: processes and threads at any one time.
    file_mb: the largest file. disk_mb: all files together. open_files: descriptors of each process.
    output_kb: stdout and stderr, each; more ends the run with status "output".
    """

    timeout_s: float = 10.0
    compile_timeout_s: float = 30.0
    cpu_s: float | None = None
    memory_mb: int = 512
    processes: int = 64
    file_mb: int = 64
    disk_mb: int = 128
    open_files: int = 256
    output_kb: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name == "cpu_s":
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e9:
                raise SandboxError(f"Limits({field.name}={value!r}): expected a number above 0")

    @property
    def cpu_limit_s(self) -> float:
        """`cpu_s`, or its default."""
        return self.timeout_s + 1 if self.cpu_s is None else self.cpu_s
