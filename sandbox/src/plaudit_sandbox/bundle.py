"""The agent as one text, for places where this package is not installed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

# In the order in which they import one another.
_MODULES = (
    *(
        "frames",
        "syscalls",
        "seccomp",
        "landlock",
        "workdir",
        "request",
        "report",
        "interpret",
        "processes",
        "confine",
        "host",
    ),
    *("session", "program", "pipes", "job", "watch", "outcome", "serve", "main"),
)

_LOADER = """\
import sys, types
def _load(sources):
    for name in ("plaudit_sandbox", "plaudit_sandbox.agent"):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = []
    for name, source in sources.items():
        full = "plaudit_sandbox.agent." + name
        module = sys.modules[full] = types.ModuleType(full)
        module.__package__ = "plaudit_sandbox.agent"
        exec(compile(source, full, "exec", dont_inherit=True), module.__dict__)
        setattr(sys.modules["plaudit_sandbox.agent"], name, module)
_load({sources!r})
sys.modules["plaudit_sandbox.agent.main"].main(**{options!r})
"""


def agent_source(**options: Any) -> str:
    """Python source that runs the agent over its stdin and stdout; needs Python >= 3.10 and nothing else.

    options: those of `plaudit_sandbox.agent.main.main`, e.g. scratch="/tmp", landlock=False, lines=True.
    """
    return _LOADER.replace("{sources!r}", repr(_sources())).replace("{options!r}", repr(options))


@cache
def _sources() -> dict[str, str]:
    folder = Path(__file__).with_name("agent")
    return {name: (folder / f"{name}.py").read_text() for name in _MODULES}
