"""The SDK blocks; what it does goes to threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """`function(*arguments)` in a thread; here and now once the interpreter is ending and takes no more work."""
    try:
        result = asyncio.get_running_loop().run_in_executor(None, function, *arguments)
    except RuntimeError:
        return function(*arguments)
    return await result
