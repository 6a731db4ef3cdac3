"""The `e2b` back end: programs in sandboxes of the E2B cloud, through the official SDK."""

from plaudit_sandbox.e2b.backend import E2BBackend

__all__ = ["E2BBackend"]
