"""Opening a sandbox by name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import entry_points
from typing import Any

from plaudit_sandbox.box import Box
from plaudit_sandbox.choosing import choose
from plaudit_sandbox.engine import Engine
from plaudit_sandbox.errors import SandboxError
from plaudit_sandbox.limits import Limits
from plaudit_sandbox.pool import Pool
from plaudit_sandbox.protocol import Backend, Sandbox

GROUP = "plaudit.sandboxes"
_pools: dict[str, Pool] = {}
_opening: dict[str, asyncio.Lock] = {}


def open_sandbox(
    backend: str | None = None, *, limits: Limits | None = None, retries: int = 2, **options: Any
) -> AbstractAsyncContextManager[Sandbox]:
    """A sandbox of the named back end, to be used in `async with`; leaving it ends all that it started.

    Without a name it is that of `shared_sandbox`: local, unless a run says otherwise.

    Sandboxes of one process with the same back end and options share one pool of warm agents, from whatever event loop
    or thread they are used; the pool is closed with the last of them. retries: attempts after an infrastructure
    failure. options: the back end's own, e.g. `preload=("numpy",)` for local. Raises SandboxError for an unknown back
    end or option and SandboxRefused where the machine cannot isolate.
    """
    if backend is None:
        return _opened(_chosen_box(None, limits, retries, options))
    return _opened(_box(backend, limits, retries, options))


def shared_sandbox(
    backend: str | None = None, *, limits: Limits | None = None, retries: int = 2, **options: Any
) -> Sandbox:
    """The same, for use without `async with`: starts at its first run and is closed when the process ends.

    Meant for rewards and environments: without a name it is the run's back end (`plaudit_sandbox.choosing`), and a
    plugin may put another in place of either.
    """
    return _chosen_box(backend, limits, retries, options)


def make_backend(name: str, options: Mapping[str, Any]) -> Backend:
    """The back end of that name from the installed distributions. Raises SandboxError."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        raise SandboxError(f"no sandbox back end named {name!r}; installed: {', '.join(sorted(found)) or 'none'}")
    try:
        factory = found[name].load()
    except ImportError as error:
        raise SandboxError(
            f"the sandbox back end {name!r} needs {error.name}: pip install 'plaudit-sandbox[{name}]'"
        ) from error
    try:
        made = factory(**options)
    except TypeError as error:
        raise SandboxError(f"sandbox back end {name!r}: {error}") from error
    assert isinstance(made, Backend)
    return made


@asynccontextmanager
async def _opened(box: Box) -> AsyncIterator[Sandbox]:
    try:
        await box.start()
        yield box
    finally:
        await box.close()


def _chosen_box(backend: str | None, limits: Limits | None, retries: int, options: Mapping[str, Any]) -> Box:
    limits = limits or Limits()
    choice = choose(backend, options, limits)
    return _box(choice.backend, limits, retries, dict(choice.options))


def _box(backend: str, limits: Limits | None, retries: int, options: dict[str, Any]) -> Box:
    name = f"{backend} {sorted(options.items(), key=str)!r}"

    async def acquire() -> Pool:
        async with _opening.setdefault(name, asyncio.Lock()):
            if name not in _pools:
                made = make_backend(backend, options)
                await made.isolation()
                _pools[name] = Pool(made)
            _pools[name].users += 1
            return _pools[name]

    async def release(pool: Pool) -> None:
        async with _opening[name]:
            pool.users -= 1
            if pool.users == 0 and _pools.get(name) is pool:
                del _pools[name]
                await pool.close()

    return Box(engine, acquire, release, limits or Limits(), retries)


def _forget() -> None:
    """In a forked child: the agents are the parent's, and their sockets are closed here."""
    _pools.clear()
    _opening.clear()


os.register_at_fork(after_in_child=_forget)


async def _close_all() -> None:
    while _pools:
        await _pools.popitem()[1].close()


engine = Engine(at_exit=_close_all)
