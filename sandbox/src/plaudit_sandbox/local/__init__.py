"""The `local` back end: warm slots on this machine, a fresh fork a run; no daemon, no root."""

from __future__ import annotations

from plaudit_sandbox.local.backend import LocalBackend

__all__ = ["LocalBackend"]
