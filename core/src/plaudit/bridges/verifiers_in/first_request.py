"""What an environment's harness asks for first, found out before anything is trained."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from plaudit.errors import UsageError
from plaudit.plugins.importing import describe_error

from ..episodes import Policy, Wanted

if TYPE_CHECKING:
    from .taskset import TasksetEnvironment

WAIT_S = 300.0


def tools_asked_for(environment: TasksetEnvironment) -> tuple[dict[str, Any], ...]:
    """The tools of the first request of the first task. Raises UsageError when its episode cannot begin."""
    with ThreadPoolExecutor(1) as pool:  # a loop may be running in this thread already
        wanted = pool.submit(asyncio.run, _first(environment)).result()
    return tuple(wanted.tools)


async def _first(environment: TasksetEnvironment) -> Wanted:
    policy = Policy()
    program = asyncio.ensure_future(environment.play(policy, 0))
    try:
        wanted = await asyncio.wait_for(policy.wanted(program), WAIT_S)
        if wanted is None:
            verdict = await program
            raise UsageError(f"it ended before it asked for a turn, with {verdict.score}")
        return wanted
    except Exception as error:
        why = f"nothing was asked for in {WAIT_S:g} s" if isinstance(error, TimeoutError) else describe_error(error)
        raise UsageError(f"verifiers: an episode of {environment.name} cannot begin: {why}") from error
    finally:
        program.cancel()
        with suppress(BaseException):
            await asyncio.wait({program}, timeout=30.0)
