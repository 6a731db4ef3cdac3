"""A session inside its process: one interpreter, many runs."""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Any

from . import host, interpret, workdir
from .frames import Channel, Closed
from .request import Specification, read_body


def serve_cells(descriptor: int) -> None:
    """Run what comes over `descriptor` until it closes, answering each with its exit code."""
    channel = Channel(descriptor, descriptor)
    namespace = interpret.main_namespace(())
    namespace["__plaudit_show__"] = interpret.show
    host.offer(descriptor)
    environment = dict(os.environ)
    number = 0
    while True:
        try:
            _, body = channel.receive()
        except Closed:
            return
        number += 1
        code, built = 1, True
        before_s, _ = _usage()
        if body is not None:
            spec = read_body(body)
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                code, built = _run(spec, namespace, number, environment)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            except KeyboardInterrupt:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                print("KeyboardInterrupt", file=sys.stderr)
                code = 130
            except interpret.MissingToolchain as missing:
                print(missing, file=sys.stderr)
                code = 127
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except BaseException:
                code = code or 120
        used_s, max_rss_kb = _usage()
        channel.send(
            {"op": "done", "exit_code": code, "built": built, "cpu_s": used_s - before_s, "max_rss_kb": max_rss_kb}
        )


def _run(spec: Specification, namespace: dict[str, Any], number: int, environment: dict[str, str]) -> tuple[int, bool]:
    """(exit code, whether it compiled)."""
    workdir.place(spec.files)
    stdin = _descriptor_of(spec.stdin)
    try:
        if spec.kind == "command":
            return _run_command(spec, stdin, environment)
        os.dup2(stdin, 0)
        sys.stdin = interpret.text_stream(0, "r")
        os.environ.clear()
        os.environ.update({**environment, **spec.env})
        sys.argv = [interpret.FILE, *spec.arguments]
        try:
            code = interpret.compile_cell(bytes(spec.source), f"cell {number}")
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            interpret.print_syntax_error(error)
            return 1, False
        return interpret.execute(code, namespace), True
    finally:
        os.close(stdin)


def _run_command(spec: Specification, stdin: int, environment: dict[str, str]) -> tuple[int, bool]:
    import subprocess  # brings in threading, whose hooks every fork of the agent would pay for

    sys.stdout.flush()
    env = {**environment, **spec.env}
    for step, stream in ((spec.compile, 2), (spec.command, 1)):
        if not step:
            continue
        path = interpret.find_command(step, env["PATH"])
        process = subprocess.Popen(
            [path, *step[1:]], stdin=stdin, stdout=stream, stderr=2, env=env, start_new_session=True
        )
        try:
            code = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code:
            return code if code > 0 else 128 - code, step is spec.command
    return 0, True


def _usage() -> tuple[float, int]:
    """(CPU seconds so far, largest resident set in KiB) of this process and its children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return cpu_s, max(own.ru_maxrss, children.ru_maxrss)


def _descriptor_of(data: memoryview) -> int:
    descriptor = os.memfd_create("stdin")
    while data:
        data = data[os.write(descriptor, data) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
