"""The run's own process: from a fork of the agent to the program's first instruction, and a session's loop."""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import signal
import sys
from typing import NamedTuple, NoReturn

from . import host, interpret, workdir
from .confine import Confinement, limit_cpu, set_limits
from .report import COMPILING, RUNNING, Report
from .request import Settings, Specification, read_body
from .session import serve_cells

CONTROL = 3
_SESSION_CPU_S = 1e8
SETUP_FAILED = 125
_MOVED_FROM = 64


class Streams(NamedTuple):
    """The descriptors that become 0, 1, 2 and, where there is one, CONTROL."""

    stdin: int
    stdout: int
    stderr: int
    control: int | None


def become_program(
    confinement: Confinement,
    settings: Settings,
    body: mmap.mmap | None,
    streams: Streams,
    report: Report,
    *,
    session: bool,
) -> NoReturn:
    """In the forked child: confine it and run the program. Never returns; failures before it go to `report`."""
    try:
        confinement.begin(settings)
        _connect(streams)
        if session:
            code = _session(confinement, settings, report)
        elif body is not None:
            code = _program(confinement, settings, read_body(body), report)
        else:
            raise ValueError("a run needs a body")
    except BaseException as error:
        _fail(report, error)
    os._exit(code)


def _fail(report: Report, error: BaseException) -> NoReturn:
    try:
        report.fail(error)
    finally:
        os._exit(SETUP_FAILED)


def _connect(streams: Streams) -> None:
    wanted = [streams.stdin, streams.stdout, streams.stderr]
    if streams.control is not None:
        wanted.append(streams.control)
    # Out of the way first, to numbers that are free: a source descriptor may lie where another is to go.
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _MOVED_FROM) for descriptor in wanted]
    for target, descriptor in enumerate(moved):
        os.dup2(descriptor, target, inheritable=target < CONTROL)


def _close_others(*, keep_control: bool) -> None:
    first = CONTROL + 1 if keep_control else CONTROL
    os.closerange(first, max(256, resource.getrlimit(resource.RLIMIT_NOFILE)[0]))


def _reset_signals(interrupt: object) -> None:
    """What a program expects to find, instead of what the agent ignores."""
    signal.signal(signal.SIGINT, interrupt)  # type: ignore[arg-type]
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _program(confinement: Confinement, settings: Settings, spec: Specification, report: Report) -> int:
    workdir.place(spec.files)
    os.environ.update(spec.env)
    cpu_s = settings.compile_timeout_s if spec.compile else settings.cpu_s
    set_limits(settings, cpu_s=cpu_s, tasks=confinement.task_limit(settings))
    confinement.lock()
    _close_others(keep_control=settings.calls)
    if spec.kind == "python":
        return _python(spec, report, calls=settings.calls)
    return _command(spec, settings, report)


def _python(spec: Specification, report: Report, *, calls: bool) -> int:
    source = bytes(spec.source)
    namespace = interpret.main_namespace(spec.arguments)
    workdir.place([(interpret.FILE, spec.source)])
    if calls:
        host.offer(CONTROL)
    report.enter(COMPILING)
    try:
        code = interpret.compile_main(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        interpret.print_syntax_error(error)
        return 1
    _reset_signals(signal.default_int_handler)
    report.enter(RUNNING)
    report.close()
    return interpret.finish(interpret.execute(code, namespace))


def _command(spec: Specification, settings: Settings, report: Report) -> int:
    if spec.compile:
        compiler = interpret.find_command(spec.compile)
        report.enter(COMPILING)
        import subprocess  # brings in threading, whose hooks every fork of the agent would pay for

        built = subprocess.run([compiler, *spec.compile[1:]], stdin=subprocess.DEVNULL, stdout=2)
        if built.returncode:
            return built.returncode & 0xFF
        limit_cpu(settings.cpu_s)
    path = interpret.find_command(spec.command)
    _reset_signals(signal.SIG_DFL)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    report.enter(RUNNING)
    report.close()
    try:
        os.execve(path, list(spec.command), dict(os.environ))
    except OSError as error:
        print(f"{path}: {error.strerror}", file=sys.stderr)
        return 126


def _session(confinement: Confinement, settings: Settings, report: Report) -> int:
    set_limits(settings, cpu_s=_SESSION_CPU_S, tasks=confinement.task_limit(settings))
    confinement.lock()
    _close_others(keep_control=True)
    _reset_signals(signal.SIG_IGN)
    report.enter(RUNNING)
    report.close()
    serve_cells(CONTROL)
    return 0
