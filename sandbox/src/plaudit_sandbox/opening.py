"""Opening a sandbox by name."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any

from plaudit_sandbox.limits import Limits
from plaudit_sandbox.protocol import Sandbox


def open_sandbox(
    backend: str = "local", *, limits: Limits | None = None, retries: int = 2, **options: Any
) -> AbstractAsyncContextManager[Sandbox]:
    """A sandbox of the named back end, to be used in `async with`; leaving it ends all that it started.

    Sandboxes of one process with the same back end and options share one pool of warm agents, from whatever event loop
    or thread they are used; the pool is closed with the last of them. retries: attempts after an infrastructure
    failure. options: the back end's own, e.g. `preload=("numpy",)` for local. Raises SandboxError for an unknown back
    end or option and SandboxRefused where the machine cannot isolate.
    """
    raise NotImplementedError


def shared_sandbox(
    backend: str = "local", *, limits: Limits | None = None, retries: int = 2, **options: Any
) -> Sandbox:
    """The same, for use without `async with`: starts at its first run and is closed when the process ends."""
    raise NotImplementedError
