"""`[sandbox]`: the back end of a run's rewards and environments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plaudit.errors import UsageError
from plaudit.run.schema import RunFile


@contextmanager
def run_sandbox(run: RunFile) -> Iterator[None]:
    """Make the back end of the run file the default, of worker processes too.

    Raises UsageError on one that is not installed, or has no such option.
    """
    section = run.sandbox
    if section is None:
        yield
        return
    try:
        from plaudit_sandbox.choosing import Choice, sandbox_default
        from plaudit_sandbox.errors import SandboxError
        from plaudit_sandbox.opening import make_backend
    except ImportError:
        raise UsageError("[sandbox] needs plaudit-sandbox: pip install plaudit-sandbox") from None
    try:
        make_backend(section.backend, section.options)
    except SandboxError as error:
        raise UsageError(f"[sandbox] {error}") from error
    with sandbox_default(Choice(section.backend, dict(section.options))):
        yield
