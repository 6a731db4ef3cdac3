"""Errors that Plaudit raises on purpose: one or two lines that name the value, what was expected and what to do."""

from __future__ import annotations


class PlauditError(Exception):
    """Base of every deliberate error. The CLI prints its message without a traceback and exits with 2."""


class UsageError(PlauditError):
    """The run file, command line or call is wrong; nothing was computed yet."""


class PluginError(PlauditError):
    """A plugin cannot be found, loaded, or used as asked."""


class ContractError(PlauditError):
    """A reward, verifier or environment broke its contract, e.g. a list of the wrong length."""
