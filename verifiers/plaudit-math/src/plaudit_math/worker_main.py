"""The process on the other side of `worker`: reads requests from stdin, writes answers to stdout."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import sys
from typing import Any

MEMORY_MB = 1024
_HEADER = struct.Struct(">I")


def main() -> None:
    """Serves until stdin ends. Another second after a request's own time, the system ends this process (SIGALRM)."""
    _limit_memory()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (header := requests.read(_HEADER.size)) and len(header) == _HEADER.size:
        request, timeout_s = pickle.loads(requests.read(_HEADER.unpack(header)[0]))
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, timeout_s + 1)
        answer = pickle.dumps(_answer(request))
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(_HEADER.pack(len(answer)) + answer)
        answers.flush()


def _answer(request: tuple[Any, ...]) -> bool:
    from plaudit_math import symbolic

    kind, pairs = request
    return any(_same(symbolic.same if kind == "same" else symbolic.library_same, *pair) for pair in pairs)


def _same(rule: Any, left: Any, right: Any) -> bool:
    try:
        return bool(rule(left, right))
    except Exception:
        # What cannot be worked out is not equal.
        return False


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        limit = MEMORY_MB * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(10_000)


if __name__ == "__main__":
    main()
