"""Sandboxes for untrusted programs: one async protocol, three back ends (local, docker, e2b).

Importing this package imports no back end; each name below is loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plaudit_sandbox.errors import InfrastructureFailure, SandboxError, SandboxRefused
    from plaudit_sandbox.limits import Limits
    from plaudit_sandbox.opening import open_sandbox, shared_sandbox
    from plaudit_sandbox.protocol import Backend, Isolation, Program, Sandbox, Session, Transport
    from plaudit_sandbox.result import Result, Status

__version__ = "0.1.0"

_HOMES = {
    "InfrastructureFailure": "errors",
    "SandboxError": "errors",
    "SandboxRefused": "errors",
    "Limits": "limits",
    "Result": "result",
    "Status": "result",
    "Backend": "protocol",
    "Isolation": "protocol",
    "Program": "protocol",
    "Sandbox": "protocol",
    "Session": "protocol",
    "Transport": "protocol",
    "open_sandbox": "opening",
    "shared_sandbox": "opening",
}

__all__ = [
    "Backend",
    "InfrastructureFailure",
    "Isolation",
    "Limits",
    "Program",
    "Result",
    "Sandbox",
    "SandboxError",
    "SandboxRefused",
    "Session",
    "Status",
    "Transport",
    "__version__",
    "open_sandbox",
    "shared_sandbox",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'plaudit_sandbox' has no attribute {name!r}")
    return getattr(import_module(f"plaudit_sandbox.{home}"), name)
