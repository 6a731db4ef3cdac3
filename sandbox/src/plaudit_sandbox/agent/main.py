"""Starting an agent that serves its stdin and stdout, in a container or a remote machine."""

from __future__ import annotations

import os
from typing import Any

from . import landlock, syscalls
from .confine import Confinement, Options
from .frames import Channel, LineChannel
from .serve import Agent


def main(*, lines: bool = False, **options: Any) -> None:
    """Serve until stdin closes. lines: answer in lines of base64, where stdout carries text. options: see `Options`.

    Landlock is used where the kernel has it and otherwise left out: the container is the wall.
    """
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.makedirs(options["scratch"], exist_ok=True)
    if options.get("landlock") and not landlock.abi():
        options["landlock"] = False
    channel = LineChannel(incoming, outgoing) if lines else Channel(incoming, outgoing)
    Agent(channel, Confinement(Options(**options)), tier="agent").serve()
