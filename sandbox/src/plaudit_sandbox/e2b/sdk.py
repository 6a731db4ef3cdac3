"""The E2B SDK, imported late, and its errors in this package's words."""

from __future__ import annotations

import asyncio
import importlib
import os
from typing import Any

from plaudit_sandbox.errors import InfrastructureFailure, SandboxError, SandboxRefused

KEY_VARIABLE = "E2B_API_KEY"
_OUR_MISTAKE = (400, 401, 403, 404)
"""Statuses of the control plane that no retry can cure."""


async def load_sdk() -> Any:
    """The module `e2b`, imported in a thread. Raises SandboxRefused where it, or the API key, is missing."""
    try:
        sdk = await asyncio.to_thread(importlib.import_module, "e2b")
    except ImportError as error:
        raise SandboxRefused(f"the e2b back end needs {error.name}: pip install 'plaudit-sandbox[e2b]'") from error
    if not os.environ.get(KEY_VARIABLE):
        raise SandboxRefused(
            f"the e2b back end needs an API key in the environment variable {KEY_VARIABLE}, which is not set; "
            "keys are made at https://e2b.dev/dashboard"
        )
    return sdk


def named(error: BaseException, *names: str) -> bool:
    """Whether the error is one of the SDK's of these names, or of a subclass."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def trouble(error: BaseException) -> SandboxError:
    """What an error of the SDK means to callers. Its text is kept, but for the API key.

    SandboxRefused where the account or the request is at fault, InfrastructureFailure for all that may go better
    another time: rate limits, lost sandboxes, time-outs, connections.
    """
    text = f"{type(error).__name__}: {error}"[:500]
    key = os.environ.get(KEY_VARIABLE)
    if key:
        text = text.replace(key, "…")
    if named(error, "AuthenticationException"):
        return SandboxRefused(f"E2B does not accept the API key in {KEY_VARIABLE} ({text})")
    if named(error, "TemplateException") or getattr(error, "status_code", None) in _OUR_MISTAKE:
        return SandboxRefused(f"E2B refuses the sandbox; check the template and the account ({text})")
    return InfrastructureFailure(f"E2B: {text}")
