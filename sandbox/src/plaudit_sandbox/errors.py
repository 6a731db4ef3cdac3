"""What the sandbox raises on purpose. A program's own failure is never an exception: it is a `Result`."""

from __future__ import annotations


class SandboxError(Exception):
    """Base of every deliberate error: one or two lines that name the value, what was expected and what to do."""


class SandboxRefused(SandboxError):
    """This machine cannot isolate a program as asked, and nothing was run."""


class InfrastructureFailure(SandboxError):
    """The sandbox broke, not the program: says nothing about the program, so a reward must abstain.

    Raised after the retries of `open_sandbox(retries=)` are used up.
    """
