"""The contracts: what callers use (`Sandbox`, `Session`) and what a back end brings (`Backend`, `Transport`).

A back end starts agents (see `agent_source`) and carries bytes to and from them; slots, pooling, retries, sessions and
cancellation are the same for all and live in pool.py and slot.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from plaudit_sandbox.limits import Limits
from plaudit_sandbox.result import Result

Data = str | bytes
"""Text is sent as UTF-8."""

HostCall = Callable[[bytes], Awaitable[bytes]]
"""Answers what the program asks through `plaudit_host.call(data: bytes) -> bytes`. What it receives is untrusted."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run.

    source: the program's text. language: "python", or another of `languages.LANGUAGES` (bash, node, c, cpp …).
    arguments: its command-line arguments. command: run this instead of a source, e.g. ("sort", "-n", "numbers.txt").
    """

    source: Data = ""
    language: str = "python"
    arguments: Sequence[str] = ()
    command: Sequence[str] | None = None


class Runner(Protocol):
    """Anything that runs programs."""

    async def run(
        self,
        program: str | Program,
        *,
        stdin: Data = b"",
        files: Mapping[str, Data] | None = None,
        collect: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        on_call: HostCall | None = None,
    ) -> Result:
        """Run one program and return how it ended; a str is Python source.

        files: relative path -> content, written beforehand into the working directory. collect: relative paths, or
        glob patterns, of files to bring back. env: the program's whole environment but PATH, HOME, TMPDIR, LANG and
        OMP_NUM_THREADS; nothing of this process's environment is passed on. timeout_s: instead of `Limits.timeout_s`.

        Cancelling it kills every process that the run started. Raises InfrastructureFailure if the sandbox broke,
        SandboxError if the arguments are wrong or the language's toolchain is missing.
        """
        ...


class Session(Runner, Protocol):
    """Runs that share files, and one Python interpreter whose names persist from run to run.

    In a session, a Python run that ends with an expression prints its value, as in a notebook. A run that overstays
    its time is interrupted; if it does not stop, the interpreter is restarted (names lost) and `detail` says so.
    """

    async def close(self) -> None:
        """End the session: every process and file of it is gone afterwards."""
        ...


class Sandbox(Runner, Protocol):
    """What `open_sandbox` gives. Each `run` starts from nothing: no file, process or name of another run."""

    limits: Limits

    def session(self) -> AbstractAsyncContextManager[Session]:
        """A stateful session: `async with box.session() as session: await session.run("x = 1")`."""
        ...

    async def close(self) -> None:
        """End all that this sandbox started. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Isolation:
    """How a back end isolates: the tier's name, and in plain words what it stops and what it does not."""

    backend: str
    tier: str
    stops: Sequence[str]
    does_not_stop: Sequence[str]


class Transport(Protocol):
    """An ordered byte stream to one running agent, and the means to destroy all that is behind it."""

    async def send(self, data: bytes) -> None:
        """Write all of `data`. Raises OSError (or a subclass of SandboxError) if the agent is gone."""
        ...

    async def receive(self) -> bytes:
        """The next bytes, of any length; b"" once the agent is gone.

        Raises InfrastructureFailure instead where it is known that no program brought that about.
        """
        ...

    async def close(self) -> None:
        """Kill the agent and all its processes, and return when they and their files are gone. Idempotent."""
        ...

    async def over_memory(self) -> bool:
        """After the stream ended by itself: whether the kernel killed the agent for want of memory."""
        ...


@runtime_checkable
class Backend(Protocol):
    """A way to start agents. Entry-point group `plaudit.sandboxes`; called with the options of `open_sandbox`.

    max_slots: agents for runs, at most, in this process. max_sessions: agents that sessions may hold besides, which are
    mostly idle. recycle_after: runs after which an agent is replaced; None
    for never.
    """

    name: str
    max_slots: int
    max_sessions: int
    recycle_after: int | None

    def slot_key(self, limits: Limits) -> Hashable:
        """Agents with equal keys are interchangeable: what of `limits` is fixed when an agent starts."""
        ...

    async def start(self, limits: Limits) -> Transport:
        """Start one agent. Raises InfrastructureFailure (retried) or SandboxRefused (not retried)."""
        ...

    async def isolation(self) -> Isolation:
        """What it stops here, on this machine. Raises SandboxRefused if it would not run at all."""
        ...

    async def close(self) -> None:
        """End what all its agents share. Called when none is left. It may be started again."""
        ...
