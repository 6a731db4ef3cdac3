"""Processes of servers: started together, watched, and ended together."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from plaudit.errors import UsageError
from plaudit.run.signals import terminated_as_interrupt

if TYPE_CHECKING:
    from plaudit.run.vllm_command import ServerCommand

TICK_S = 0.5
END_S = 20.0


def run_servers(commands: Sequence[ServerCommand]) -> int:
    """Start all and wait: 0 after Ctrl-C or SIGTERM, 1 when one ended by itself. None outlives this call.

    Raises UsageError when a port is taken.
    """
    for command in commands:
        _check_port(command.url)
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with terminated_as_interrupt():
            for command in commands:
                # In a group of its own, so that Ctrl-C reaches this process alone and its workers end with it.
                processes.append(
                    subprocess.Popen(
                        list(command.arguments), env={**os.environ, **command.environment}, start_new_session=True
                    )
                )
            return _watch(commands, processes)
    except KeyboardInterrupt:
        print("\nstopping the servers", flush=True)
        return 0
    except OSError as error:
        raise UsageError(f"{commands[0].arguments[0]} does not start: {error}") from error
    finally:
        _end(processes)


def _watch(commands: Sequence[ServerCommand], processes: Sequence[subprocess.Popen[bytes]]) -> int:
    waiting = {command.url for command in commands}
    while True:
        for command, process in zip(commands, processes, strict=True):
            if process.poll() is not None:
                print(f"the server of {command.url} ended with code {process.returncode}", flush=True)
                return 1
        for url in sorted(waiting):
            if _healthy(url):
                waiting.discard(url)
                print(f"ready: {url} (Ctrl-C stops it)", flush=True)
        time.sleep(TICK_S)


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=TICK_S) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):
        return False


def _check_port(url: str) -> None:
    parts = urlsplit(url)
    with socket.socket() as probe:
        probe.settimeout(TICK_S)
        if probe.connect_ex((parts.hostname or "", parts.port or 0)) == 0:
            raise UsageError(f"something listens at {url} already; choose another --port, or stop it")


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask each group to end, then make it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            if number == signal.SIGKILL or process.poll() is None:
                _signal_group(process, number)
        deadline = time.monotonic() + END_S
        for process in processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                continue


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return
