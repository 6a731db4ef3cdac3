"""From how a program ended to what its client is told."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

from . import workdir
from .frames import Buffer, Head
from .job import Exit, Job
from .report import COMPILING, SETTING_UP
from .request import Settings
from .watch import Ending

# The last words of programs whose allocator was refused. A program can print them too: that wins it nothing, since
# every status but "ok" is a failure of its own.
_OUT_OF_MEMORY = (b"MemoryError", b"std::bad_alloc", b"heap out of memory", b"Cannot allocate memory", b"out of memory")


def of_run(job: Job, settings: Settings, ending: Ending, ended: Exit, *, oom_kills: int) -> Head:
    """The head of a finished run's `result`, or of a `broken` where the sandbox failed before the program began."""
    if ending.reason == "broken" or (not ending.reason and job.report.stage == SETTING_UP):
        error = job.report.error or ending.detail or f"died while setting up ({_describe(ended)})"
        return {"op": "broken", "error": error}
    if ending.reason:
        status, detail = "killed" if ending.reason == "cancelled" else ending.reason, ending.detail
    else:
        status, detail = _by_exit(job, settings, ended, oom_kills=oom_kills)
    wall_s = max(0.0, time.monotonic() - job.report.started)
    return _result(status, detail, _exit_code(ended) if not ending.reason else None, wall_s, ended)


def of_cell(job: Job, ending: Ending, *, wall_s: float, oom: bool) -> Head:
    """The head of a `result` of a session's cell that was answered, or interrupted and then answered."""
    usage, code = ending.usage, ending.exit_code
    if ending.reason:
        return _result(ending.reason, ending.detail, None, wall_s, usage)
    if code == 0:
        return _result("ok", "", 0, wall_s, usage)
    if not ending.built:
        return _result("compile", "did not compile", code, wall_s, usage)
    if oom or _says_out_of_memory(job):
        return _result("memory", "over the memory limit", code, wall_s, usage)
    return _result("failed", f"exit code {code}", code, wall_s, usage)


def attachments(
    job: Job, directory: int | None, settings: Settings
) -> tuple[Sequence[str], list[int], Sequence[Buffer]]:
    """(names of collected files, lengths, buffers) of stdout, stderr and the collected files."""
    found = []
    if directory is not None:
        found = workdir.collect(directory, settings.collect, max_bytes=settings.disk)
    parts: list[Buffer] = [job.stdout.view(), job.stderr.view(), *(memoryview(content) for _, content in found)]
    return [name for name, _ in found], [len(part) for part in parts], parts


def _by_exit(job: Job, settings: Settings, ended: Exit, *, oom_kills: int) -> tuple[str, str]:
    code = _exit_code(ended)
    if job.report.stage == COMPILING:
        return "compile", "did not compile"
    if code == 0:
        return "ok", ""
    if oom_kills or _says_out_of_memory(job):
        return "memory", f"over {settings.memory >> 20} MiB"
    if code < 0:
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and ended.cpu_s >= settings.cpu_s):
            return "timeout", f"used more than {settings.cpu_s:g} CPU seconds"
        return "killed", _describe(ended)
    return "failed", _describe(ended)


def _result(status: str, detail: str, code: int | None, wall_s: float, ended: Exit) -> Head:
    return {
        "op": "result",
        "status": status,
        "detail": detail,
        "exit_code": code,
        "wall_s": wall_s,
        "cpu_s": ended.cpu_s,
        "peak_memory_mb": ended.max_rss_kb / 1024,
    }


def _says_out_of_memory(job: Job) -> bool:
    last = job.stderr.tail(4096).rstrip().rpartition(b"\n")[2]
    tail = job.stderr.tail(400)
    return b"MemoryError" in last or any(words in tail for words in _OUT_OF_MEMORY[1:])


def _exit_code(ended: Exit) -> int:
    return os.waitstatus_to_exitcode(ended.status)


def _describe(ended: Exit) -> str:
    code = _exit_code(ended)
    return f"signal {-code}" if code < 0 else f"exit code {code}"
